package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

func TestTheOlderTransport(t *testing.T) {
	h := newHeld()
	w := serveWeb(t, Limits{}, append(asking(), who(), steps(100), h.tool())...)
	stream, hangUp, header := w.open("GET", "/sse", "", "X-Who", "alice")
	if header.Get("Content-Type") != "text/event-stream" || header.Get("X-Accel-Buffering") != "no" || header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("headers %v", header)
	}
	address := within(t, stream, "the address")
	id, ok := strings.CutPrefix(address, "/message?sessionId=")
	if !ok {
		t.Fatalf("the address is %s", address)
	}
	say := func(body string) {
		t.Helper()
		w.expect(202, "", "POST", address, body, "X-Who", "alice")
	}
	hear := func(part string) {
		t.Helper()
		if event := within(t, stream, "an event"); !strings.Contains(event, part) {
			t.Fatalf("got %s\nwant %s", event, part)
		}
	}
	say(initializeAskable)
	hear(`"protocolVersion":"2025-11-25"`)
	say(callLine("1", "who", ""))
	hear("connection=" + id + " principal=alice")
	say(callLine("2", "steps", `"p"`))
	for i := range 100 {
		hear(fmt.Sprintf(`"progress":%d,`, i))
	}
	hear(`"id":2,`)
	say(callLine("3", "ask", ""))
	hear("elicitation/create")
	say(`{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`)
	hear("decline")

	say(callLine("4", "hold", ""))
	within(t, h.started, "the call")
	w.expect(404, "GET /sse", "POST", address, cancelOf("4"), "X-Who", "bob")
	w.expect(404, "send initialize", "POST", "/mcp", cancelOf("4"), "X-Who", "alice", headerSession, id)
	w.expect(400, "-32700", "POST", address, "{", "X-Who", "alice")
	if h.cancelled.Load() != 0 {
		t.Error("a stranger cancelled the call")
	}
	say(cancelOf("4"))
	within(t, h.ended, "the cancel")

	say(callLine("5", "hold", ""))
	within(t, h.started, "the call")
	hangUp()
	within(t, h.ended, "the cancel by the end of the stream")
	if got := within(t, w.gone, "the end of the session"); got != id {
		t.Errorf("the end of %s was told", got)
	}
	w.expect(404, "GET /sse", "POST", address, callLine("6", "who", ""), "X-Who", "alice")
}

func TestQuestionsOverStreamableHTTP(t *testing.T) {
	w := serveWeb(t, Limits{}, asking()...)
	id := w.begin(initializeAskable)
	stream, _, _ := w.open("POST", "/mcp", callLine("1", "ask", ""), headerSession, id)
	if event := within(t, stream, "the question"); !strings.Contains(event, `"id":1,"method":"elicitation/create"`) {
		t.Fatalf("got %s", event)
	}
	other := w.begin(initializeAskable)
	w.expect(202, "", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`, headerSession, other)
	w.expect(202, "", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, headerSession, id)
	if event := within(t, stream, "the answer"); !strings.Contains(event, "decline") {
		t.Errorf("got %s", event)
	}
	// Who takes no stream cannot be asked.
	w.expect(200, errNoWayToAsk.Error(), "POST", "/mcp", callLine("2", "ask", ""), headerSession, id, "Accept", "application/json")
}

func TestSlowConnectionsKeepNobodyOut(t *testing.T) {
	w := serveWeb(t, Limits{Connections: 8}, who())
	var slow []net.Conn
	for range 40 {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	begin := time.Now()
	w.begin(initialize)
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("a good client waited %s", took)
	}
	// The first ones have made room.
	if err := slow[0].SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := slow[0].Read(make([]byte, 1)); err == nil {
		t.Error("the first connection is open")
	}
}

func TestConnectionsWithARequestInHandAreKept(t *testing.T) {
	w := serveWeb(t, Limits{Connections: 4})
	id, other := w.begin(initialize), w.begin(initialize, "X-Who", "bob")
	http.DefaultClient.CloseIdleConnections()
	for i := range 4 {
		headers := []string{headerSession, id}
		if i == 3 { // one client may not have them all
			w.expect(429, "Too many requests and streams", "GET", "/mcp", "", headers...)
			headers = []string{headerSession, other, "X-Who", "bob"}
		}
		_, _, header := w.open("GET", "/mcp", "", headers...)
		if header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("headers %v", header)
		}
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	data, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(data), "HTTP/1.1 503 ") {
		t.Errorf("one too many got %q, %v", data, err)
	}
}

func TestAReaderWhoNeverReadsIsDropped(t *testing.T) {
	big := tool("big", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", 900_000)), nil
	})
	w := serveWeb(t, Limits{Write: 200 * time.Millisecond}, big)
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /sse HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 4096)
	read := 0
	for !strings.Contains(string(head[:read]), "sessionId=") {
		n, err := c.Read(head[read:])
		if err != nil {
			t.Fatal(err)
		}
		read += n
	}
	_, rest, _ := strings.Cut(string(head[:read]), "data: ")
	address, _, _ := strings.Cut(rest, "\n")
	for n := range 40 { // far more than sockets hold
		if status, _, _ := w.do("POST", address, callLine(fmt.Sprint(n), "big", "")); status == http.StatusNotFound {
			break // dropped already
		}
	}
	within(t, w.gone, "the end of the stream that nobody reads")
}
