package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A web is a server on a port of this machine.
type web struct {
	t     *testing.T
	url   string
	stop  context.CancelFunc
	ended chan error
	gone  chan string // connections that have ended
}

// whose takes the principal from a header, as tests have no guard.
type whoKey struct{}

func byHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), whoKey{}, r.Header.Get("X-Who"))))
	})
}

func serveWeb(t *testing.T, limits Limits, tools ...server.ServerTool) *web {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	web := &web{t: t, url: "http://" + l.Addr().String(), stop: stop, ended: make(chan error, 1), gone: make(chan string, 4096)}
	h := &HTTP{
		Server: NewServer(Options{Version: "1.2.3", Tools: tools, OnEnd: func(connection string) { web.gone <- connection }}),
		Log:    slog.New(slog.DiscardHandler),
		Principal: func(ctx context.Context) string {
			who, _ := ctx.Value(whoKey{}).(string)
			return who
		},
		Guard: byHeader, Limits: limits, Drain: time.Second,
	}
	go func() { web.ended <- h.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-web.ended:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Serve did not return")
		}
	})
	return web
}

func (w *web) request(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// do makes a request and reads its answer as a whole.
func (w *web) do(method, path, body string, headers ...string) (status int, text string, header http.Header) {
	w.t.Helper()
	response, err := http.DefaultClient.Do(w.request(method, path, body, headers...))
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(data), response.Header
}

func (w *web) expect(status int, part, method, path, body string, headers ...string) string {
	w.t.Helper()
	got, text, _ := w.do(method, path, body, headers...)
	if got != status || !strings.Contains(text, part) {
		w.t.Errorf("%s %s %.80s: %d %s\nwant %d %s", method, path, body, got, text, status, part)
	}
	return text
}

// begin begins a protocol session and gives its id.
func (w *web) begin(initialize string, headers ...string) string {
	w.t.Helper()
	status, text, header := w.do("POST", "/mcp", initialize, headers...)
	id := header.Get(headerSession)
	if status != 200 || id == "" {
		w.t.Fatalf("initialize: %d %s", status, text)
	}
	return id
}

func metaWith(token string) string {
	if token != "" {
		token = `"progressToken":` + token + `,`
	}
	return `"_meta":{` + token + `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
}

func modernCall(id, tool, token string) (body string, headers []string) {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{},%s}}`, id, tool, metaWith(token)),
		[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool}
}

// events reads the messages of a stream.
func eventsOf(t *testing.T, body io.Reader) []string {
	t.Helper()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.SplitSeq(string(data), "\n") {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			if !json.Valid([]byte(text)) {
				t.Fatalf("an event is not JSON: %s", text)
			}
			all = append(all, text)
		}
	}
	return all
}

// steps tells progress and answers.
func steps(count int) server.ServerTool {
	return tool("steps", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range count {
			if err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, methodProgress,
				map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": i}); err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("done"), nil
	})
}

// who tells what a tool sees of its caller.
func who() server.ServerTool {
	return tool("who", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s := server.ClientSessionFromContext(ctx)
		principal := s.(interface{ Principal() string }).Principal()
		return mcp.NewToolResultText(fmt.Sprintf("connection=%s principal=%s", s.SessionID(), principal)), nil
	})
}

// A held is a tool that runs until it is cancelled or let go.
type held struct {
	started   chan string // progress tokens
	release   chan struct{}
	cancelled atomic.Int32
	ended     chan struct{}
}

func newHeld() *held {
	return &held{started: make(chan string, 4096), release: make(chan struct{}), ended: make(chan struct{}, 4096)}
}

func (h *held) tool() server.ServerTool {
	return tool("hold", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := ""
		if r.Params.Meta != nil {
			token = fmt.Sprint(r.Params.Meta.ProgressToken)
		}
		h.started <- token
		defer func() { h.ended <- struct{}{} }()
		select {
		case <-h.release:
			return mcp.NewToolResultText("released"), nil
		case <-ctx.Done():
			h.cancelled.Add(1)
			return nil, ctx.Err()
		}
	})
}

func within[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case value := <-c:
		return value
	case <-time.After(time.Minute):
		t.Fatal(what + " did not happen")
		panic("unreachable")
	}
}

func TestASessionOverHTTP(t *testing.T) {
	w := serveWeb(t, Limits{}, who())
	id := w.begin(initialize, "X-Who", "alice")
	alice := []string{headerSession, id, "X-Who", "alice", "Mcp-Protocol-Version", "2025-11-25"}
	w.expect(202, "", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, alice...)
	w.expect(200, `"id":1,"result":{}`, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, alice...)
	w.expect(200, "connection="+id+" principal=alice", "POST", "/mcp", callLine("2", "who", ""), alice...)
	w.expect(400, "protocol version is not supported", "POST", "/mcp", callLine("3", "who", ""), headerSession, id, "X-Who", "alice", "Mcp-Protocol-Version", "1999-01-01")
	w.expect(400, headerSession, "POST", "/mcp", callLine("3", "who", ""))
	w.expect(204, "", "DELETE", "/mcp", "", alice...)
	if got := within(t, w.gone, "the end of the session"); got != id {
		t.Errorf("the end of %s was told", got)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		w.expect(404, "send initialize", method, "/mcp", callLine("4", "who", ""), alice...)
	}
	w.expect(200, `"ok"`, "GET", "/healthz", "")
}

func TestSessionsOfOthersAndForgedOnes(t *testing.T) {
	w := serveWeb(t, Limits{}, who())
	id := w.begin(initialize, "X-Who", "alice")
	flipped := []byte(id)
	flipped[3] ^= 1
	other := newMinter().mint("alice")
	for name, headers := range map[string][]string{
		"another's":      {headerSession, id, "X-Who", "bob"},
		"nobody's":       {headerSession, id},
		"changed":        {headerSession, string(flipped), "X-Who", "alice"},
		"made up":        {headerSession, "mcp-session-1b4e28ba-2fa1-11d2-883f-0016d3cca427", "X-Who", "alice"},
		"of another key": {headerSession, other, "X-Who", "alice"},
		"long":           {headerSession, strings.Repeat("A", 4000), "X-Who", "alice"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				w.expect(404, "send initialize", method, "/mcp", callLine("1", "who", ""), headers...)
			}
			w.expect(404, "GET /sse", "POST", "/message?sessionId="+headers[1], callLine("1", "who", ""), headers[2:]...)
		})
	}
	w.expect(200, "alice", "POST", "/mcp", callLine("1", "who", ""), headerSession, id, "X-Who", "alice")
	if len(w.gone) != 0 {
		t.Error("a session has ended")
	}
}

func TestTheEraWithoutSessions(t *testing.T) {
	w := serveWeb(t, Limits{}, who(), steps(2))
	body, headers := modernCall("1", "who", "")
	text := w.expect(200, "connection= principal=", "POST", "/mcp", body, append(headers, headerSession, "whatever")...)
	if !strings.Contains(text, `"resultType":"complete"`) {
		t.Errorf("got %s", text)
	}
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + metaWith("") + `}}`
	version := []string{"Mcp-Protocol-Version", "2026-07-28"}
	w.expect(200, `"supportedVersions"`, "POST", "/mcp", discover, append(version, "Mcp-Method", "server/discover")...)
	unknown := strings.Replace(discover, "server/discover", "nope", 1)
	w.expect(404, `-32601`, "POST", "/mcp", unknown, append(version, "Mcp-Method", "nope")...)
	listen := `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + metaWith("") + `}}`
	text = w.expect(200, "notifications/subscriptions/acknowledged", "POST", "/mcp", listen, append(version, "Mcp-Method", "subscriptions/listen")...)
	if !strings.Contains(text, `"id":"l"`) {
		t.Errorf("the subscription was not answered: %s", text)
	}
	tests := []struct {
		name    string
		status  int
		part    string
		headers []string
	}{
		{"no version header", 400, "-32020", headers[2:]},
		{"another version", 400, "-32020", []string{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", "tools/call", "Mcp-Name", "who"}},
		{"no method", 400, "-32020", []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Name", "who"}},
		{"another method", 400, "-32020", append(version, "Mcp-Method", "tools/list", "Mcp-Name", "who")},
		{"no name", 400, "-32020", append(version, "Mcp-Method", "tools/call")},
		{"another name", 400, "-32020", append(version, "Mcp-Method", "tools/call", "Mcp-Name", "steps")},
		{"Last-Event-ID", 400, "-32020", append(headers, "Last-Event-ID", "7")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { w.expect(tt.status, tt.part, "POST", "/mcp", body, tt.headers...) })
	}
	future := strings.ReplaceAll(body, "2026-07-28", "2999-01-01")
	w.expect(400, `"supported":["2026-07-28"`, "POST", "/mcp", future, "Mcp-Protocol-Version", "2999-01-01", "Mcp-Method", "tools/call", "Mcp-Name", "who")
	w.expect(400, "-32602", "POST", "/mcp", callLine("1", "who", ""), headers...)
	w.expect(405, "no sessions", "GET", "/mcp", "", version...)
	w.expect(405, "no sessions", "DELETE", "/mcp", "", version...)
	w.expect(202, "", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, version...)
	w.expect(202, "", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	w.expect(400, "Nobody asked", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`, version...)
}

func TestProgressOverHTTPIsWholeAndInOrder(t *testing.T) {
	const count = 200
	w := serveWeb(t, Limits{}, steps(count))
	id := w.begin(initialize)
	for _, isModern := range []bool{false, true} {
		for n := range 10 {
			token := fmt.Sprintf(`"t%d"`, n)
			body, headers := modernCall("1", "steps", token)
			if !isModern {
				body, headers = callLine("1", "steps", token), []string{headerSession, id}
			}
			response, err := http.DefaultClient.Do(w.request("POST", "/mcp", body, headers...))
			if err != nil {
				t.Fatal(err)
			}
			got := eventsOf(t, response.Body)
			response.Body.Close()
			if len(got) != count+1 || response.Header.Get("X-Accel-Buffering") != "no" {
				t.Fatalf("%d events, headers %v", len(got), response.Header)
			}
			for i, event := range got[:count] {
				if !strings.Contains(event, fmt.Sprintf(`"progress":%d,"progressToken":%s`, i, token)) {
					t.Fatalf("event %d is %s", i, event)
				}
			}
			if !strings.Contains(got[count], `"id":1,`) || !strings.Contains(got[count], "done") {
				t.Errorf("the last event is %s", got[count])
			}
		}
	}
	// Who takes no stream gets the answer alone.
	w.expect(200, "done", "POST", "/mcp", callLine("1", "steps", `"x"`), headerSession, id, "Accept", "application/json")
	w.expect(406, "accept both", "POST", "/mcp", callLine("1", "steps", `"x"`), headerSession, id, "Accept", "image/png")
}

func TestHealthAndUnknownAddresses(t *testing.T) {
	w := serveWeb(t, Limits{})
	w.expect(404, "", "GET", "/metrics", "")
	w.expect(404, "", "GET", "/", "")
	w.expect(405, "", "PUT", "/mcp", "{}")
	w.expect(405, "", "GET", "/message", "")
}

// lines reads a stream of events as they come.
func (w *web) open(method, path, body string, headers ...string) (events <-chan string, hangUp func(), header http.Header) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	response, err := http.DefaultClient.Do(w.request(method, path, body, headers...).WithContext(ctx))
	if err != nil {
		w.t.Fatal(err)
	}
	c := make(chan string, 4096)
	go func() {
		defer close(c)
		defer response.Body.Close()
		for r := bufio.NewReader(response.Body); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			if text, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok {
				c <- string(text)
			}
		}
	}()
	w.t.Cleanup(cancel)
	return c, cancel, response.Header
}
