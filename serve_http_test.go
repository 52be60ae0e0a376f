package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/config"
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

func TestBaseURL(t *testing.T) {
	for _, tt := range []struct {
		addr  string
		isTLS bool
		want  string
	}{
		{"127.0.0.1:8765", false, "http://127.0.0.1:8765"},
		{"0.0.0.0:8765", true, "https://127.0.0.1:8765"},
		{"[::]:8765", false, "http://[::1]:8765"},
		{"192.0.2.7:1", false, "http://192.0.2.7:1"},
	} {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.addr))
		if got := baseURL(addr, tt.isTLS); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.addr, got, tt.want)
		}
	}
}

// Whoever names an address of IPv4 does not get one of IPv6 as well.
func TestListenKeepsToTheFamily(t *testing.T) {
	h := host{cfg: config.Default()}
	h.cfg.Server.Listen = "0.0.0.0:0"
	l, err := h.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if addr, ok := l.Addr().(*net.TCPAddr); !ok || addr.IP.To4() == nil {
		t.Errorf("listens on %s", l.Addr())
	}
}
