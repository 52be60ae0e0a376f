package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func callLine(id, tool, token string) string {
	meta := ""
	if token != "" {
		meta = `,"_meta":{"progressToken":` + token + `}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}%s}}`, id, tool, meta)
}

// A remote is a client at the other end of two pipes.
type remote struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string
	ended chan error
}

func tool(name string, handler server.ToolHandlerFunc) server.ServerTool {
	return server.ServerTool{Tool: mcp.NewTool(name), Handler: handler}
}

// connect serves the tools to a new peer.
func connect(t *testing.T, stdio Stdio, tools ...server.ServerTool) *remote {
	t.Helper()
	return connectServer(t, stdio, NewServer(Options{Version: "1.2.3", Tools: tools, Instructions: func() string { return "be kind" }}))
}

// connectServer serves a new peer.
func connectServer(t *testing.T, stdio Stdio, s *server.MCPServer) *remote {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	stdio.Server = s
	stdio.In, stdio.Log = inR, slog.New(slog.DiscardHandler)
	if stdio.Out == nil {
		stdio.Out = outW
	}
	p := &remote{t: t, in: inW, lines: make(chan string, 4096), ended: make(chan error, 1)}
	go func() {
		err := stdio.Serve(context.Background())
		outW.Close()
		p.ended <- err
	}()
	go func() {
		defer close(p.lines)
		for r := bufio.NewReader(outR); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			p.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	return p
}

func (p *remote) send(lines ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// next is the next line the server wrote, or "" when it wrote none any more.
func (p *remote) next() string {
	p.t.Helper()
	select {
	case line := <-p.lines:
		if line != "" && !json.Valid([]byte(line)) {
			p.t.Fatalf("stdout holds something else than JSON: %q", line)
		}
		return line
	case <-time.After(time.Minute):
		p.t.Fatal("the server wrote nothing")
		return ""
	}
}

func (p *remote) expect(parts ...string) string {
	p.t.Helper()
	line := p.next()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			p.t.Fatalf("got %s\nwant %s", line, part)
		}
	}
	return line
}

// close ends the input and gives what Serve returned.
func (p *remote) close() error {
	p.t.Helper()
	p.in.Close()
	return p.wait()
}

func (p *remote) wait() error {
	p.t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(time.Minute):
		p.t.Fatal("Serve did not return")
		return nil
	}
}

func TestBothEras(t *testing.T) {
	p := connect(t, Stdio{}, tool("echo", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("hi"), nil
	}))
	p.send(initialize)
	line := p.expect(`"id":0`, `"protocolVersion":"2025-11-25"`, `"name":"biocage"`, `"title":"BioCage"`, `"version":"1.2.3"`, `"instructions":"be kind"`)
	for _, absent := range []string{"logging", "listChanged", "prompts", "subscribe", "tasks"} {
		if strings.Contains(line, absent) {
			t.Errorf("initialize offers %s: %s", absent, line)
		}
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, callLine("1", "echo", ""))
	p.expect(`"id":1`, `"text":"hi"`)

	modern := modernMeta
	p.send(`{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{` + modern + `}}`)
	p.expect(`"id":2`, `"2026-07-28"`, `"instructions":"be kind"`, `"supportedVersions"`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{},` + modern + `}}`)
	p.expect(`"id":3`, `"text":"hi"`, `"resultType":"complete"`)
	p.send(`{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{` + modern + `}}`)
	p.expect(`"id":4`, `"ttlMs":3600000`, `"cacheScope":"public"`)
	if err := p.close(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestProgressComesBeforeItsResultAndNeverAfter(t *testing.T) {
	progress := func(ctx context.Context, token mcp.ProgressToken) {
		// A full channel drops progress; order is what matters here.
		err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, methodProgress, map[string]any{"progressToken": token, "progress": 1})
		if err != nil && !errors.Is(err, server.ErrNotificationChannelBlocked) {
			t.Error(err)
		}
	}
	late := make(chan struct{}, 300)
	p := connect(t, Stdio{}, tool("steps", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for range 3 {
			progress(ctx, r.Params.Meta.ProgressToken)
		}
		go func() {
			time.Sleep(time.Millisecond)
			progress(context.WithoutCancel(ctx), r.Params.Meta.ProgressToken)
			late <- struct{}{}
		}()
		return mcp.NewToolResultText("done"), nil
	}))
	p.send(initialize)
	p.next()
	for i := range 300 {
		token := fmt.Sprintf(`"t%d"`, i)
		p.send(callLine(fmt.Sprint(i+1), "steps", token))
		for range 3 {
			p.expect(methodProgress, token)
		}
		line := p.next()
		if strings.Contains(line, methodProgress) && strings.Contains(line, token) {
			line = p.next() // the late one was early enough
		}
		if want := fmt.Sprintf(`"id":%d,`, i+1); !strings.Contains(line, want) {
			t.Fatalf("got %s\nwant %s", line, want)
		}
	}
	for range 300 {
		<-late
	}
	p.send(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
	p.expect(`"id":"last"`)
}

func TestQueuedCallsRunInOrderAndCancelledOnesDoNot(t *testing.T) {
	gate, started := make(chan struct{}), make(chan string, 8)
	p := connect(t, Stdio{MaxCalls: 1}, tool("wait", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		started <- fmt.Sprint(r.Params.Meta.ProgressToken)
		select {
		case <-gate:
			return mcp.NewToolResultText("free"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
	p.send(initialize)
	p.next()
	for i := 1; i <= 4; i++ {
		p.send(callLine(fmt.Sprint(i), "wait", fmt.Sprintf(`"%d"`, i)))
	}
	if got := <-started; got != "1" {
		t.Fatalf("started %s first", got)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	p.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`) // answered while calls run, after the cancel
	p.expect(`"id":"p"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if got := <-started; got != "3" {
		t.Fatalf("started %s, want 3: call 2 was cancelled while it waited", got)
	}
	close(gate)
	p.expect(`"id":3`, "free")
	p.expect(`"id":4`, "free")
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if line := <-p.lines; line != "" {
		t.Errorf("a cancelled call was answered: %s", line)
	}
}

func TestRefusedLines(t *testing.T) {
	p := connect(t, Stdio{MaxLine: 1 << 20}, tool("wait", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}), tool("boom", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("secret") }))
	tests := []struct{ name, line, want string }{
		{"noise", "DEBUG: hello", `"id":null,"error":{"code":-32700`},
		{"half a message", `{"jsonrpc":"2.0","id":1`, `-32700`},
		{"too long", `{"x":"` + strings.Repeat("x", 9<<20) + `"}`, `"id":null,"error":{"code":-32600`},
		{"a batch", `[` + initialize + `]`, `-32600`},
		{"a number", `42`, `-32600`},
		{"no method", `{"jsonrpc":"2.0","id":7}`, `"id":7,"error":{"code":-32600`},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `-32600`},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `-32600`},
		{"wrong version", `{"jsonrpc":"1.0","id":8,"method":"ping"}`, `"id":8,"error":{"code":-32600`},
		{"unknown method", `{"jsonrpc":"2.0","id":9,"method":"nope"}`, `"id":9,"error":{"code":-32601`},
		{"params of a wrong shape", `{"jsonrpc":"2.0","id":10,"method":"tools/call","params":[1]}`, `"id":10,"error":{"code":-32`},
		{"unknown tool", callLine("11", "nope", ""), `"id":11,"error":{"code":-32602`},
		{"a panic", callLine("12", "boom", ""), `incident`},
		{"a large id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `"id":9007199254740993`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p.send(tt.line)
			line := p.expect(tt.want)
			if strings.Contains(line, "secret") {
				t.Errorf("the panic's value went to the client: %s", line)
			}
		})
	}
	t.Run("an id in use", func(t *testing.T) {
		p.send(callLine("20", "wait", ""), callLine("20", "wait", ""))
		p.expect(`"id":20,"error":{"code":-32600`, "in use")
	})
	t.Run("responses and blank lines are ignored", func(t *testing.T) {
		p.send("", `{"jsonrpc":"2.0","id":5,"result":{}}`, `{"jsonrpc":"2.0","id":5,"error":{}}`, `{"jsonrpc":"2.0","method":"notifications/nope"}`,
			`{"jsonrpc":"2.0","id":21,"method":"ping"}`)
		p.expect(`"id":21`)
	})
}

func TestUnmarshalableListIsAnswered(t *testing.T) {
	// The library's own trap: both schemas set, and tools/list cannot be encoded.
	broken := mcp.NewTool("broken", mcp.WithRawInputSchema(json.RawMessage(`{"type":"object"}`)))
	broken.InputSchema.Type = "object"
	p := connect(t, Stdio{}, server.ServerTool{Tool: broken})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	p.expect(`"id":1,"error":{"code":-32603`)
}

func TestEndOfInputCancelsAndIsSilent(t *testing.T) {
	var cancelled atomic.Int32
	started := make(chan struct{}, 2)
	p := connect(t, Stdio{MaxCalls: 1}, tool("wait", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		started <- struct{}{}
		<-ctx.Done()
		cancelled.Add(1)
		return mcp.NewToolResultText("too late"), nil
	}))
	p.send(initialize, callLine("1", "wait", ""), callLine("2", "wait", ""))
	p.expect(`"id":0`)
	<-started
	if _, err := io.WriteString(p.in, `{"jsonrpc":"2.0","id":3,"meth`); err != nil { // and the end comes mid-line
		t.Fatal(err)
	}
	if err := p.close(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if line := <-p.lines; line != "" {
		t.Errorf("written after the end of the input: %s", line)
	}
	if got := cancelled.Load(); got != 1 {
		t.Errorf("%d calls were cancelled, want the running one", got)
	}
}

func TestLastLineWithoutNewline(t *testing.T) {
	p := connect(t, Stdio{})
	if _, err := io.WriteString(p.in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); err != nil {
		t.Fatal(err)
	}
	p.in.Close()
	p.expect(`"id":1,"result"`)
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestWriteErrorEndsTheSession(t *testing.T) {
	ended := make(chan struct{})
	p := connect(t, Stdio{Out: brokenPipe{}}, tool("wait", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}))
	p.send(callLine("1", "wait", ""), initialize)
	if err := p.wait(); err != nil {
		t.Errorf("Serve: %v; a client that went away is a normal end", err)
	}
	<-ended
}

func TestStubbornCallsAndDeafClientsDoNotHoldUpTheEnd(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	deafR, deafW := io.Pipe() // nobody reads
	defer deafR.Close()
	p := connect(t, Stdio{Out: deafW, Drain: 50 * time.Millisecond}, tool("stubborn", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-release
		return mcp.NewToolResultText(""), nil
	}))
	p.send(initialize, callLine("1", "stubborn", ""))
	begin := time.Now()
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
}

func TestContextEndsServe(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	defer inW.Close()
	connections := make(chan string, 1)
	onEnd := func(connection string) { connections <- connection }
	stdio := Stdio{Server: NewServer(Options{OnEnd: onEnd}), In: inR, Out: io.Discard, Log: slog.New(slog.DiscardHandler)}
	ended := make(chan error, 1)
	go func() { ended <- stdio.Serve(ctx) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Serve did not return")
	}
	if got := <-connections; got != "stdio" {
		t.Errorf("the end of the connection %q was told", got)
	}
}

func TestQueueIsBounded(t *testing.T) {
	const queue = 5
	turns := newTurns(1, 1, queue)
	c := newCalls(turns, "")
	hold := make(chan struct{})
	var ran atomic.Int32
	admit := func(id string) error {
		return c.admit(&call{id: id, cancel: func(error) {}, run: func() { <-hold; ran.Add(1) }})
	}
	for i := range queue + 1 {
		if err := admit(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := admit("one more"); !errors.Is(err, errQueueFull) {
		t.Errorf("admit: %v, want errQueueFull", err)
	}
	close(hold)
	turns.wg.Wait()
	if got := ran.Load(); got != queue+1 {
		t.Errorf("%d calls ran, want %d", got, queue+1)
	}
	c.end(errEnding)
	if !turns.end(time.Second) {
		t.Error("end: calls are left")
	}
	if err := admit("late"); !errors.Is(err, errEnding) {
		t.Errorf("admit after the end: %v", err)
	}
}

func FuzzLineReader(f *testing.F) {
	f.Add("a\nbb\n\nccc", 2)
	f.Fuzz(func(t *testing.T, text string, maxLine int) {
		maxLine = max(1, min(maxLine, 100_000))
		lines := newLineReader(strings.NewReader(text), maxLine)
		count := 0
		for {
			line, err := lines.next()
			if len(line) > maxLine {
				t.Fatalf("a line of %d bytes, the bound is %d", len(line), maxLine)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			count++
		}
		if want := strings.Count(text, "\n"); count != want {
			t.Fatalf("%d lines, want %d", count, want)
		}
	})
}
