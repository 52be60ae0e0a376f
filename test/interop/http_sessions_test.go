package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A site is a server of ours that listens on a port of its own.
type site struct {
	t     *testing.T
	url   string
	token string
	cmd   *exec.Cmd
}

// serveHTTP starts a server for HTTP; end ends it.
func (l lab) serveHTTP(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, token: "a-token-of-the-tests", cmd: exec.Command(l.binary, "serve", "--transport", "http", "--listen", "127.0.0.1:0", "--config", l.config(t, settings{warm: 1}))}
	s.cmd.Env = append(os.Environ(), "BIOCAGE_SERVER_TOKENS="+s.token)
	var log lockedBuffer
	s.cmd.Stderr = &log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`)
	for range 300 {
		if s.url = address.FindString(log.String()); s.url != "" {
			return s
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the server does not say where it listens:\n%s", log.String())
	return nil
}

func (s *site) end() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = s.cmd.Wait()                          // its exit status is another test's
	}
}

// post sends one message and gives the answer, and the headers it came with.
func (s *site) post(method string, body any, headers map[string]string) (string, http.Header) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url, bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s: %s (%v)", method, text, res.Status, data, err)
	}
	return string(data), res.Header
}

// connect opens a protocol session, as older clients do.
func (s *site) connect() (id string) {
	s.t.Helper()
	_, headers := s.post("POST", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "interop", "version": "1"},
	}}, nil)
	if id = headers.Get("Mcp-Session-Id"); id == "" {
		s.t.Fatal("initialize made no protocol session")
	}
	s.post("POST", map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}, map[string]string{"Mcp-Session-Id": id})
	return id
}

// tool calls a tool over the protocol session id, or in the newest revision
// where id is "", and gives the text and the result object.
func (s *site) tool(id, name string, args map[string]any) (string, run) {
	s.t.Helper()
	params := map[string]any{"name": name, "arguments": args}
	headers := map[string]string{"Mcp-Session-Id": id, "Mcp-Protocol-Version": "2025-11-25"}
	if id == "" {
		headers = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "interop", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		}
	}
	text, _ := s.post("POST", map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}, headers)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data:"))
		var got struct {
			Result *struct {
				Content []struct{ Text string }    `json:"content"`
				Meta    map[string]json.RawMessage `json:"_meta"`
			} `json:"result"`
		}
		if json.Unmarshal([]byte(line), &got) == nil && got.Result != nil && len(got.Result.Content) > 0 {
			return got.Result.Content[0].Text, parse[run](s.t, got.Result.Meta["biocage/result"])
		}
	}
	s.t.Fatalf("%s: no result: %s", name, text)
	return "", run{}
}

// Sessions over HTTP: begun by each call where the protocol has none, found
// again by their handle, also after a connection has gone.
func TestSessionsOverHTTP(t *testing.T) {
	onEachEngine(t, func(t *testing.T, lab lab) {
		s := lab.serveHTTP(t)
		text, first := s.tool("", "python_run", map[string]any{"code": "x = 6"})
		if want := fmt.Sprintf("session: %s — pass it as \"session\" to continue here\n", first.Session); !strings.HasPrefix(text, want) {
			t.Errorf("the first answer does not begin with %q: %s", want, text)
		}
		if text, second := s.tool("", "python_run", map[string]any{"code": "'x' in globals()"}); second.Result == nil || *second.Result != "False" || second.Session == first.Session {
			t.Errorf("a second call without a handle: %s", text)
		}
		if text, got := s.tool("", "python_run", map[string]any{"session": first.Session, "code": "x * 7"}); got.Result == nil || *got.Result != "42" || strings.HasPrefix(text, "session:") {
			t.Errorf("back with the handle: %s", text)
		}
		if text, _ := s.tool("", "file_list", map[string]any{}); !strings.Contains(text, "This call needs a session") {
			t.Errorf("reading without a handle: %s", text)
		}

		id := s.connect()
		_, own := s.tool(id, "python_run", map[string]any{"code": "y = 6"})
		if text, got := s.tool(id, "python_run", map[string]any{"code": "y + 1"}); got.Result == nil || *got.Result != "7" || got.Session != own.Session {
			t.Errorf("a connection's own session: %s", text)
		}
		s.post("DELETE", nil, map[string]string{"Mcp-Session-Id": id})
		if text, got := s.tool("", "python_run", map[string]any{"session": own.Session, "code": "y"}); got.Result == nil || *got.Result != "6" {
			t.Errorf("after its connection has gone: %s", text)
		}

		s.end()
		s = lab.serveHTTP(t)
		if text, got := s.tool("", "python_run", map[string]any{"session": own.Session, "code": "y"}); got.Success || !strings.Contains(text, "ended when the server restarted") {
			t.Errorf("after a restart: %s", text)
		}
	})
}
