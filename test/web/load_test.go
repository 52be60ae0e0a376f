package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A zeroes is a message of n bytes that is never in memory.
type zeroes struct{ left int64 }

// Read implements io.Reader.
func (z *zeroes) Read(p []byte) (int, error) {
	if z.left <= 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	for i := range p[:n] {
		p[i] = 'x'
	}
	z.left -= int64(n)
	return n, nil
}

// H10: a body of 300 MB is refused, however its length is told, and costs no
// memory to speak of, while others are served.
func TestWebHugeBodies(t *testing.T) {
	s := start(t, nil)
	s.served(10 * time.Second)
	before := s.memory("VmHWM")
	const size = 300 << 20
	stream := s.openStream(adaToken)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			path := "/mcp"
			if i%3 == 2 {
				path = "/message?sessionId=" + url.QueryEscape(stream.id)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+path, &zeroes{left: size})
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 {
				r.ContentLength = size // else it comes in chunks
			}
			r.Header.Set("Authorization", "Bearer "+adaToken)
			r.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Logf("cut: %v", err) // while it sent; a client may not see the answer
				return
			}
			_ = answer.Body.Close() // the status says all
			if answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %s", path, answer.Status)
			}
		})
	}
	s.served(20 * time.Second)
	wg.Wait()
	if grown := s.memory("VmHWM") - before; grown > 128<<20 {
		t.Errorf("six bodies of 300 MB cost %d MiB", grown>>20)
	} else {
		t.Logf("six bodies of 300 MB cost %d MiB", grown>>20)
	}
	if n := s.figure("biocage_sessions_began_total"); n != 0 {
		t.Errorf("%v sandboxes were begun", n)
	}
}

// H12: connections that send nothing, or a header or a body letter by letter,
// keep nobody out, and are closed.
func TestWebSlowConnections(t *testing.T) {
	t.Parallel() // most is waiting
	s := start(t, nil)
	starts := []string{
		"", "POST /mcp HTTP/1.1\r\nHost: " + s.address + "\r\nX-Slow: ",
		"POST /mcp HTTP/1.1\r\nHost: " + s.address + "\r\nAuthorization: Bearer " + adaToken + "\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		"GET /healthz HTTP/1.1\r\nHost: " + s.address + "\r\n\r\n", // kept alive
	}
	const count = 500
	closed := make(chan time.Duration, count)
	begin := time.Now()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range count {
		c := s.dial()
		text := starts[i%len(starts)]
		wg.Go(func() {
			defer func() { _ = c.Close() }() // closed by the server, mostly
			_, _ = c.Write([]byte(text))     // it may have been closed
			part := make([]byte, 1024)
			for {
				if c.SetDeadline(time.Now().Add(time.Second)) != nil {
					return
				}
				_, err := c.Read(part)
				if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					closed <- time.Since(begin)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
				if i%len(starts) == 1 || i%len(starts) == 2 {
					_, _ = c.Write([]byte("x")) // the next Read tells
				}
			}
		})
		if i%100 == 99 {
			s.served(5 * time.Second)
		}
	}
	for time.Since(begin) < 8*time.Second {
		s.served(5 * time.Second)
		time.Sleep(500 * time.Millisecond)
	}
	// By now all slow headers are closed, and whatever is more than there may be.
	if n := len(closed); n < count-256 {
		t.Errorf("%d of %d connections were closed after 8 s", n, count)
	} else {
		t.Logf("%d of %d connections were closed after 8 s", n, count)
	}
	close(stop)
	wg.Wait()
}

// H12: one client with a token who holds as many streams as he gets keeps no
// other client out, and has his room back when they end.
func TestWebManyStreamsOfOneClient(t *testing.T) {
	s := start(t, nil)
	var open []net.Conn
	refused := 0
	for range 300 {
		c := s.dial()
		if _, err := fmt.Fprintf(c, "GET /sse HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.address, adaToken); err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 512)
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := c.Read(head)
		switch status := string(head[:min(n, 12)]); status {
		case "HTTP/1.1 200":
			open = append(open, c)
		case "HTTP/1.1 429":
			refused++
		default:
			t.Fatalf("stream %d: %q %v", len(open)+refused, head[:n], err)
		}
	}
	if refused == 0 {
		t.Error("no stream was refused")
	}
	t.Logf("%d streams are open, %d were refused", len(open), refused)
	s.served(5 * time.Second)
	for _, c := range open {
		_ = c.Close()
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if got := s.try(request{body: hello}); got.status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the client does not get his room back")
		}
	}
}

// H11: many protocol sessions are bounded, for one client and not by his
// neighbour, and their memory comes back.
func TestWebManyProtocolSessions(t *testing.T) {
	s := start(t, nil)
	count := often(2000, 20_000)
	flood := func(end bool) (refused int) {
		for range count / 2 {
			got := s.send(request{body: hello})
			switch id := got.header.Get("Mcp-Session-Id"); {
			case got.status == http.StatusTooManyRequests:
				refused++
			case got.status != http.StatusOK:
				t.Fatalf("initialize: %d %s", got.status, got.body)
			case end:
				s.send(request{method: http.MethodDelete, headers: []string{"Mcp-Session-Id", id}})
			}
		}
		return refused
	}
	if refused := flood(true); refused > 0 {
		t.Errorf("%d sessions were refused though each was ended", refused)
	}
	before := s.figure("go_memstats_heap_inuse_bytes")
	if refused := flood(false); refused < count/2-512 {
		t.Errorf("%d of %d sessions were refused", refused, count/2)
	}
	s.served(5 * time.Second) // another client has room
	if n := s.figure("biocage_protocol_sessions"); n > 512 {
		t.Errorf("%v protocol sessions live", n)
	}
	if grown := s.figure("go_memstats_heap_inuse_bytes") - before; grown > 32<<20 {
		t.Errorf("the heap grew by %.1f MiB", grown/(1<<20))
	} else {
		t.Logf("the heap grew by %.1f MiB with 512 sessions", grown/(1<<20))
	}
}

// H13: a stream that nobody reads is dropped, and holds up neither its client's
// other calls nor anybody else.
func TestWebStreamThatNobodyReads(t *testing.T) {
	t.Parallel() // most is waiting
	s := start(t, nil)
	c := s.dial()
	if _, err := fmt.Fprintf(c, "GET /sse HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.address, adaToken); err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 4096)
	var head string
	for !strings.Contains(head, "sessionId=") || !strings.HasSuffix(head, "\n\n\r\n") {
		n, err := c.Read(part)
		if head += string(part[:n]); err != nil {
			t.Fatalf("the stream ended: %v %s", err, head)
		}
	}
	_, id, _ := strings.Cut(head, "sessionId=")
	id, _, _ = strings.Cut(id, "\n")
	before := s.figure("go_goroutines")
	path := "/message?sessionId=" + strings.TrimSpace(id)
	refused := 0
	for deadline := time.Now().Add(60 * time.Second); refused == 0 && time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if got := s.try(request{path: path, body: listTools, ctx: ctx}); got.status == http.StatusNotFound {
			refused++
		}
		cancel()
		if grown := s.figure("go_goroutines") - before; grown > 300 {
			t.Fatalf("%v more goroutines run", grown)
		}
	}
	if refused == 0 {
		t.Error("the stream was not dropped")
	}
	s.served(5 * time.Second)
	s.calm(before)
}

// calm waits until no more goroutines run than before, give or take some.
func (s *server) calm(before float64) {
	s.t.Helper()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	var now float64
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if now = s.figure("go_goroutines"); now <= before+10 {
			return
		}
	}
	s.t.Errorf("%v goroutines run, %v before", now, before)
}

// files counts the server's open files.
func (s *server) files() int {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(s.cmd.Process.Pid), "fd"))
	if err != nil {
		s.t.Skipf("no /proc: %v", err)
	}
	return len(entries)
}

// H14: clients that go away in the middle leave nothing behind.
func TestWebManyDisconnects(t *testing.T) {
	s := start(t, nil)
	s.served(10 * time.Second)
	id := s.begin(adaToken)
	before, open := s.figure("go_goroutines"), s.files()
	head := "%s HTTP/1.1\r\nHost: " + s.address + "\r\nAuthorization: Bearer " + adaToken + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	full := func(body string) string {
		return fmt.Sprintf(head+"Mcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", "POST /mcp", id, len(body), body)
	}
	kinds := []string{
		full(listTools), full(listTools)[:120], full(strings.Repeat("x", 5000))[:2000], fmt.Sprintf(head, "GET /sse") + "\r\n",
		fmt.Sprintf(head+"Mcp-Session-Id: %s\r\n\r\n", "GET /mcp", id), full(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"file_list","arguments":{}}}`),
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", strings.Repeat("A", 20_000),
	}
	count := often(400, 1000)
	for i := range count {
		c := s.dial()
		_, _ = c.Write([]byte(kinds[i%len(kinds)])) // it may refuse early
		if i%3 == 0 {
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			_, _ = c.Read(make([]byte, 100)) // some hear a beginning
		}
		_ = c.Close()
	}
	s.calm(before)
	for deadline := time.Now().Add(10 * time.Second); s.files() > open+10; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d files are open, %d before", s.files(), open)
			break
		}
	}
	s.served(10 * time.Second)
}

// H14: clients that go away while their code runs: it is interrupted, and
// nothing stays behind.
func TestWebDisconnectsWhileCodeRuns(t *testing.T) {
	t.Parallel() // most is waiting
	needEngine(t)
	s := start(t, nil)
	id := s.begin(adaToken)
	run := func(ctx context.Context, code string) response {
		return s.try(request{ctx: ctx, body: call("1", code, ""), headers: []string{"Mcp-Session-Id", id}})
	}
	if got := run(t.Context(), "kept = 41"); got.status != http.StatusOK {
		t.Fatalf("%d %s %v", got.status, got.body, got.err)
	}
	before, open := s.figure("go_goroutines"), s.files()
	for range often(10, 200) {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		run(ctx, "import time; time.sleep(30)")
		cancel()
	}
	s.until("biocage_cells_running", 0)
	if got := run(t.Context(), "print(kept + 1)"); !strings.Contains(got.body, "42") {
		t.Errorf("the state is gone: %d %.500s %v", got.status, got.body, got.err)
	}
	s.calm(before)
	if now := s.files(); now > open+20 {
		t.Errorf("%d files are open, %d before", now, open)
	}
}

// H14: messages that are none, or mean harm, are each answered with an error.
func TestWebMalformedMessages(t *testing.T) {
	s := start(t, nil)
	id := s.begin(adaToken)
	deep := strings.Repeat("[", 1_000_000)
	for name, body := range map[string]string{
		"nothing": "", "no JSON": "}{", "a batch": "[" + listTools + "," + listTools + "]", "an empty batch": "[]", "a batch of batches": "[[[[]]]]",
		"deep arrays": deep + strings.Repeat("]", 1_000_000), "deep and open": deep,
		"deep arguments": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"python_run","arguments":{"code":` + deep + strings.Repeat("]", 1_000_000) + `}}}`,
		"deep objects":   strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000),
		"invalid UTF-8":  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/\xff\xfelist\"}", "NUL": "\x00\x00\x00", "two messages": listTools + listTools,
		"an unknown method": `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, "another version": `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, "no version": `{"id":1,"method":"tools/list"}`,
		"an object as id": `{"jsonrpc":"2.0","id":{"a":1},"method":"tools/list"}`, "an array as id": `{"jsonrpc":"2.0","id":[1],"method":"tools/list"}`, "null as id": `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`,
		"a number as method": `{"jsonrpc":"2.0","id":1,"method":7}`, "params of a wrong kind": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`,
		"an unknown tool": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no_such_tool"}}`, "a text": `"tools/list"`, "a number": "1e999", "null": "null",
		"a long method": `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 1_000_000) + `"}`, "a long id": `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 1_000_000) + `","method":"tools/list"}`,
		"UTF-16": "\xff\xfe{\x00}\x00", "a BOM": "\xef\xbb\xbf" + listTools,
	} {
		begin := time.Now()
		got := s.try(request{body: body, headers: []string{"Mcp-Session-Id", id}})
		if got.err != nil || !strings.Contains(got.body, `"error"`) || got.status >= http.StatusInternalServerError || len(got.body) > 100_000 {
			t.Errorf("%s: %d %.300s %v", name, got.status, got.body, got.err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	s.served(10 * time.Second)
	if got := s.send(request{body: listTools, headers: []string{"Mcp-Session-Id", id}}); got.status != http.StatusOK {
		t.Errorf("the session is gone: %d %s", got.status, got.body)
	}
}

// H14: of two calls with one id the second is refused, and the first runs on.
func TestWebDuplicateIds(t *testing.T) {
	t.Parallel() // most is waiting
	needEngine(t)
	s := start(t, nil)
	id := s.begin(adaToken)
	done := make(chan response, 1)
	go func() {
		done <- s.try(request{body: call("5", "import time; time.sleep(2); print('the ' + 'first')", ""), headers: []string{"Mcp-Session-Id", id}})
	}()
	s.until("biocage_cells_running", 1)
	for range 20 {
		got := s.send(request{body: call("5", "print('again')", ""), headers: []string{"Mcp-Session-Id", id}})
		if !strings.Contains(got.body, `"error"`) || strings.Contains(got.body, "again") {
			t.Errorf("a second call with the id: %d %.300s", got.status, got.body)
		}
	}
	if got := <-done; !strings.Contains(got.body, "the first") {
		t.Errorf("the first call: %d %.300s %v", got.status, got.body, got.err)
	}
}
