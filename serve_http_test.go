package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

const (
	firstToken  = "first-0123456789abcdef-0123456789"
	secondToken = "second-0123456789abcdef-0123456789"
)

// A caller is a client of a server over HTTP.
type caller struct {
	t       *testing.T
	url     string
	token   string
	session string // Mcp-Session-Id
}

// startHTTP starts the program on a free port of this machine.
func startHTTP(t *testing.T, environ ...string) (*served, *caller) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, append(environ, "BIOCAGE_SERVER_TRANSPORT=http", "BIOCAGE_SERVER_LISTEN="+address,
		"BIOCAGE_SERVER_TOKENS=ada:"+firstToken+",bob:"+secondToken)...)
	c := &caller{t: t, url: "http://" + address, token: firstToken}
	for deadline := time.Now().Add(time.Minute); ; {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+c.token)
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return s, c
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not listen: %v", err)
		}
	}
}

// post sends a message and gives the answer with its headers.
func (c *caller) post(ctx context.Context, body string, headers ...string) (status int, text string, header http.Header) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/mcp", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Authorization", "Bearer "+c.token)
	if c.session != "" {
		request.Header.Set("Mcp-Session-Id", c.session)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return response.StatusCode, string(data), response.Header
}

func (c *caller) begin() {
	c.t.Helper()
	c.session = ""
	_, text, header := c.post(c.t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if c.session = header.Get("Mcp-Session-Id"); c.session == "" {
		c.t.Fatalf("initialize: %s", text)
	}
}

func runMessage(id, code, handle, meta string) string {
	arguments := map[string]any{"code": code}
	if handle != "" {
		arguments["session"] = handle
	}
	encoded, _ := json.Marshal(arguments)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"python_run","arguments":%s%s}}`, id, encoded, meta)
}

// expectRun runs code in the connection's session.
func (c *caller) expectRun(code, part string) string {
	c.t.Helper()
	status, text, _ := c.post(c.t.Context(), runMessage("1", code, "", ""))
	if status != http.StatusOK || !strings.Contains(text, part) {
		c.t.Errorf("%s: %d %s\nwant %s", code, status, text, part)
	}
	return text
}

func TestServeHTTPKeepsState(t *testing.T) {
	s, c := startHTTP(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor")
	c.begin()
	c.expectRun("x = 6", `"success":true`)
	c.expectRun("x * 7", `"result":"42"`)

	_, text, _ := c.post(t.Context(), runMessage("2", "import time\nfor i in range(15):\n    print(i, flush=True); time.sleep(0.1)", "", `,"_meta":{"progressToken":"p"}`))
	first, last := strings.Index(text, "notifications/progress"), strings.Index(text, `"id":2`)
	if first < 0 || last < first || strings.Contains(text[last:], "notifications/progress") {
		t.Errorf("progress came not, or not before the answer: %s", text)
	}

	for name, cancel := range map[string]func(stop context.CancelFunc){
		"by a notification": func(context.CancelFunc) {
			if status, text, _ := c.post(t.Context(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"long"}}`); status != http.StatusAccepted {
				t.Errorf("cancel: %d %s", status, text)
			}
		},
		"by closing the connection": func(stop context.CancelFunc) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			c.expectRun("open('started', 'w').close(); import os; os.remove('started'); y = x", `"success":true`)
			done := make(chan string, 1)
			go func() {
				_, text, _ := c.post(ctx, runMessage(`"long"`, "x = 7; open('started', 'w').close(); time.sleep(600)", "", ""))
				done <- text
			}()
			awaitFile(t, c, "started")
			begin := time.Now()
			cancel(stop)
			if text := <-done; strings.Contains(text, `"jsonrpc"`) {
				t.Errorf("the cancelled call was answered: %s", text)
			}
			c.expectRun("x * 6", `"result":"42"`)
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("the interrupt took %s", took)
			}
		})
	}
	c.checkHandles(t)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
	if bytes.Contains(s.stderr.Bytes(), []byte(c.session)) || bytes.Contains(s.stderr.Bytes(), []byte(firstToken)) {
		t.Errorf("the log gives a session or a token away:\n%s", s.stderr)
	}
}

// get asks for an address with a token; "" is none.
func (c *caller) get(ctx context.Context, path, token string) (status int, body io.ReadCloser) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, response.Body
}

// figure gives the line of one figure, "" when it is not there.
func (c *caller) figure(name string) string {
	c.t.Helper()
	status, body := c.get(c.t.Context(), "/metrics", c.token)
	defer body.Close()
	text, err := io.ReadAll(body)
	if status != http.StatusOK || err != nil {
		c.t.Fatalf("/metrics: %d %v: %s", status, err, text)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// Figures are behind the token, count what is there, and what counts answers
// lets each event through at once.
func TestServeHTTPCounts(t *testing.T) {
	s, c := startHTTP(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor")
	for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong-0123456789abcdef-0123456789": http.StatusUnauthorized, secondToken: http.StatusOK} {
		status, body := c.get(t.Context(), "/metrics", token)
		text, err := io.ReadAll(body)
		body.Close()
		if status != want || err != nil || (want == http.StatusOK) != strings.Contains(string(text), "biocage_build_info") {
			t.Errorf("with the token %q: %d %v: %s", token, status, err, text)
		}
	}
	c.begin()
	c.expectRun("1", `"success":true`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, stream := c.get(ctx, "/sse", c.token)
	if line, err := bufio.NewReader(stream).ReadString('\n'); status != http.StatusOK || err != nil || !strings.HasPrefix(line, "event: endpoint") {
		t.Errorf("the stream begins with %d %q %v", status, line, err)
	}
	for _, want := range []string{
		"biocage_protocol_sessions 2", "biocage_sessions 1", `biocage_http_requests_total{status="401"} 2`,
		`biocage_tool_call_seconds_count{outcome="ok",tool="python_run"} 1`, `biocage_cell_seconds_count{outcome="ok"} 1`,
	} {
		name, _, _ := strings.Cut(want, " ")
		if got := c.figure(name); got != want {
			t.Errorf("%q, want %s", got, want)
		}
	}
	stream.Close()
	c.awaitFigure("biocage_protocol_sessions 1")

	// The run ends only when its progress has been read.
	body := runMessage("2", "import time\nprint('here', flush=True); time.sleep(600)", "", `,"_meta":{"progressToken":"p"}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + c.token, "Mcp-Session-Id": c.session,
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	for events := bufio.NewReader(response.Body); ; {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatalf("no progress came while the code ran: %v", err)
		}
		if strings.Contains(line, "notifications/progress") {
			break
		}
	}
	response.Body.Close()
	c.awaitFigure("biocage_cells_running 0")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
}

// awaitFigure waits until a figure has a value.
func (c *caller) awaitFigure(want string) {
	c.t.Helper()
	name, _, _ := strings.Cut(want, " ")
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if got = c.figure(name); got == want {
			return
		}
	}
	c.t.Errorf("%q, want %s", got, want)
}

// Two tokens are two principals, whom the audit log names; what belongs to one
// is of no use to the other, and each has a quota.
func TestServeHTTPTellsPrincipalsApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s, ada := startHTTP(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor", "BIOCAGE_LOG_AUDIT="+path,
		"BIOCAGE_SESSION_MAX=3", "BIOCAGE_SESSION_MAX_PER_PRINCIPAL=1", "BIOCAGE_SESSION_WARM=0")
	bob := &caller{t: t, url: ada.url, token: secondToken}
	ada.begin()
	bob.begin()
	handleOf := func(text string) string {
		_, rest, _ := strings.Cut(text, `"session":"`)
		handle, _, _ := strings.Cut(rest, `"`)
		return handle
	}
	hers := handleOf(ada.expectRun("who = 'ada'", `"success":true`))
	his := handleOf(bob.expectRun("who = 'bob'", `"success":true`))
	if hers == "" || his == "" || hers == his {
		t.Fatalf("the handles are %q and %q", hers, his)
	}
	for _, foreign := range []struct {
		who    *caller
		handle string
	}{{ada, his}, {bob, hers}} {
		_, theirs, _ := foreign.who.post(t.Context(), runMessage("3", "who", foreign.handle, ""))
		_, nobodys, _ := foreign.who.post(t.Context(), runMessage("3", "who", foreign.handle[:len(foreign.handle)-4]+"AAAA", ""))
		if !strings.Contains(theirs, `"isError":true`) || strings.Contains(theirs, "'ada'") || strings.Contains(theirs, "'bob'") {
			t.Errorf("a foreign handle: %s", theirs)
		}
		if strings.ReplaceAll(theirs, foreign.handle, "") != strings.ReplaceAll(nobodys, foreign.handle[:len(foreign.handle)-4]+"AAAA", "") {
			t.Errorf("a foreign handle differs from one that nobody has:\n%s\n%s", theirs, nobodys)
		}
	}
	id := ada.session
	ada.session = bob.session
	if status, text, _ := ada.post(t.Context(), runMessage("4", "who", "", "")); status != http.StatusNotFound {
		t.Errorf("another's protocol session: %d %s", status, text)
	}
	ada.session = id
	ada.expectRun("who", "'ada'")
	more := &caller{t: t, url: ada.url, token: firstToken}
	more.begin()
	if _, text, _ := more.post(t.Context(), runMessage("5", "1", "", "")); !strings.Contains(text, `"isError":true`) || !strings.Contains(text, "session") {
		t.Errorf("beyond the quota: %s", text)
	}
	bob.expectRun("who", "'bob'")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)

	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{}
	for text := range bytes.Lines(data) {
		var line struct{ Principal, Outcome, Refusal string }
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
		calls[line.Principal] = append(calls[line.Principal], cmp.Or(line.Refusal, line.Outcome))
	}
	want := map[string][]string{
		"ada": {"ok", "unknown_session", "unknown_session", "ok", "too_many"},
		"bob": {"ok", "unknown_session", "unknown_session", "ok"},
	}
	if diff := gocmp.Diff(want, calls); diff != "" {
		t.Errorf("%s\n%s", diff, data)
	}
}

// awaitFile waits for a file that running code makes.
func awaitFile(t *testing.T, c *caller, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		_, text, _ := c.post(t.Context(), `{"jsonrpc":"2.0","id":"f","method":"tools/call","params":{"name":"file_list","arguments":{}}}`)
		if strings.Contains(text, `"`+name+`"`) {
			return
		}
	}
	t.Fatalf("%s was not made", name)
}

// checkHandles is the era without sessions: state is found by a handle, which
// is of use to nobody else.
func (c *caller) checkHandles(t *testing.T) {
	t.Helper()
	meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "python_run"}
	modern := &caller{t: t, url: c.url, token: firstToken}
	_, text, header := modern.post(t.Context(), runMessage("1", "z = 40", "", meta), headers...)
	_, rest, _ := strings.Cut(text, `"session":"`)
	handle, _, _ := strings.Cut(rest, `"`)
	if handle == "" || header.Get("Mcp-Session-Id") != "" {
		t.Fatalf("no handle, or a session: %s", text)
	}
	if _, text, _ = modern.post(t.Context(), runMessage("1", "z + 2", handle, meta), headers...); !strings.Contains(text, `"result":"42"`) {
		t.Errorf("by its handle: %s", text)
	}
	modern.token = secondToken
	if _, text, _ = modern.post(t.Context(), runMessage("1", "z", handle, meta), headers...); !strings.Contains(text, `"isError":true`) {
		t.Errorf("another's handle was of use: %s", text)
	}
	modern.token = "wrong-0123456789abcdef"
	if status, text, _ := modern.post(t.Context(), runMessage("1", "z", handle, meta), headers...); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d %s", status, text)
	}
}
