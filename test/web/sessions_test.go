package web

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A stream is an open stream of SSE.
type stream struct {
	id     string
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// openStream opens the older transport; it ends with the test.
func (s *server) openStream(token string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/sse", http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = answer.Body.Close() }) // cancelled by then
	got := &stream{lines: bufio.NewScanner(answer.Body), cancel: cancel}
	for got.lines.Scan() {
		if _, id, found := strings.Cut(got.lines.Text(), "sessionId="); found {
			if got.id, err = url.QueryUnescape(id); err != nil {
				s.t.Fatal(err)
			}
			return got
		}
	}
	s.t.Fatalf("the stream tells no address: %v", got.lines.Err())
	return nil
}

// wait reads until a line of the stream has a part.
func (s *stream) wait(t *testing.T, part string) {
	t.Helper()
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), part) {
			return
		}
	}
	t.Errorf("the stream ended without %q: %v", part, s.lines.Err())
}

const listTools = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`

// H08: a protocol session that is forged, ended, of the wrong kind or another
// client's is 404 for every method, always the same, and its owner notices
// nothing.
func TestWebForgedAndForeignProtocolSessions(t *testing.T) {
	s := start(t, nil)
	own, ended, sse := s.begin(adaToken), s.begin(bobToken), s.openStream(adaToken)
	s.send(request{method: http.MethodDelete, token: bobToken, headers: []string{"Mcp-Session-Id", ended}})
	forged := map[string]string{
		"another's":          own,
		"ended":              ended,
		"another's stream":   sse.id,
		"one letter changed": flip(own),
		"cut":                own[:len(own)-1],
		"longer":             own + "A",
		"none of ours":       "1f0c2f8e-8a3c-4b36-9f3d-1b3f1f9a2c11",
		"very long":          strings.Repeat("A", 8000),
		"path":               "../../etc/passwd",
		"star":               "*",
	}
	var first string
	for name, id := range forged {
		for method, q := range map[string]request{
			"POST":         {body: listTools},
			"notification": {body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
			"answer":       {body: `{"jsonrpc":"2.0","id":1,"result":{}}`},
			"GET":          {method: http.MethodGet},
			"DELETE":       {method: http.MethodDelete},
		} {
			q.token, q.headers = bobToken, []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25"}
			got := s.send(q)
			if got.status != http.StatusNotFound || got.header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s, %s: %d %.200s", name, method, got.status, got.body)
			}
			if method == "POST" {
				if first == "" {
					first = got.body
				}
				if got.body != first {
					t.Errorf("%s is told apart: %s", name, got.body)
				}
			}
		}
		got := s.send(request{path: "/message?sessionId=" + url.QueryEscape(id), token: bobToken, body: listTools})
		if got.status != http.StatusNotFound {
			t.Errorf("%s, /message: %d %.200s", name, got.status, got.body)
		}
	}
	if got := s.send(request{body: listTools, headers: []string{"Mcp-Session-Id", own}}); got.status != http.StatusOK {
		t.Errorf("its owner: %d %s", got.status, got.body)
	}
	if got := s.send(request{path: "/message?sessionId=" + url.QueryEscape(sse.id), body: listTools}); got.status != http.StatusAccepted {
		t.Errorf("the stream's owner: %d %s", got.status, got.body)
	}
	sse.wait(t, "python_run")
	if strings.Contains(s.log.String(), own) {
		t.Error("an id is in the log in full")
	}
}

// flip changes one letter in the middle.
func flip(id string) string {
	i := len(id) / 2
	letter := "A"
	if id[i] == 'A' {
		letter = "B"
	}
	return id[:i] + letter + id[i+1:]
}

// H09: ids share no beginning, are never the same, and hold 128 bits at least.
func TestWebProtocolSessionsCannotBeGuessed(t *testing.T) {
	s := start(t, nil)
	seen, begins := map[string]bool{}, map[string]int{}
	count := often(400, 10_000)
	for range count {
		id := s.begin(adaToken)
		if len(id) < 22 || seen[id] {
			t.Fatalf("the id %q is short or not new", id)
		}
		seen[id] = true
		begins[id[:3]]++
		s.send(request{method: http.MethodDelete, headers: []string{"Mcp-Session-Id", id}})
	}
	for begin, n := range begins {
		if n > 5+count/50 {
			t.Errorf("%d of %d ids begin with %q", n, count, begin)
		}
	}
}

// H08 for sandboxes: another client's handle, a forged one and one that never
// was are told the same, run nothing, and harm nobody.
func TestWebForeignHandles(t *testing.T) {
	t.Parallel() // most is waiting
	needEngine(t)
	s := start(t, nil)
	got := s.send(modern("1", "secret = 'of-ada'", ""))
	handle := regexp.MustCompile(`session: (\S+) `).FindStringSubmatch(got.body)
	if handle == nil {
		t.Fatalf("no handle: %d %.500s", got.status, got.body)
	}
	id := s.begin(bobToken)
	for name, forged := range map[string]string{
		"another's": handle[1], "changed": flip(handle[1]), "cut": handle[1][:len(handle[1])-1],
	} {
		for kind, q := range map[string]request{
			"without sessions": modern("2", "print(secret)", forged),
			"with a session":   {body: call("2", "print(secret)", forged), headers: []string{"Mcp-Session-Id", id}},
		} {
			q.token = bobToken
			if got := s.send(q); strings.Contains(got.body, "of-ada") || !strings.Contains(got.body, `"isError":true`) {
				t.Errorf("%s, %s: %d %.500s", name, kind, got.status, got.body)
			}
		}
	}
	if got := s.send(modern("3", "print(secret)", handle[1])); !strings.Contains(got.body, "of-ada") {
		t.Errorf("its owner: %d %.500s", got.status, got.body)
	}
}

// H16 and the cross-client cancel: whoever is not the caller cancels nothing,
// in both eras, not even with the same token from another connection.
func TestWebForeignCancels(t *testing.T) {
	t.Parallel() // most is waiting
	needEngine(t)
	s := start(t, nil)
	own := s.begin(adaToken)
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"foreign"}}`
	code := "import time; time.sleep(4); print('to the ' + 'end')"
	done := make(chan response, 2)
	go func() {
		done <- s.try(request{body: call("77", code, ""), headers: []string{"Mcp-Session-Id", own}})
	}()
	go func() { done <- s.try(modern("78", code, "")) }()
	s.until("biocage_cells_running", 2)
	foreign := s.begin(bobToken)
	for _, id := range []string{"77", "78"} {
		body := fmt.Sprintf(cancel, id)
		for _, q := range []request{
			{token: bobToken, body: body, headers: []string{"Mcp-Session-Id", foreign}},
			{token: bobToken, body: body, headers: []string{"Mcp-Session-Id", own}},
			{token: bobToken, body: body, headers: []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "notifications/cancelled"}},
			{token: bobToken, body: body},
			{body: body, headers: []string{"Mcp-Session-Id", s.begin(adaToken)}},
			{body: body, headers: []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "notifications/cancelled"}},
		} {
			if got := s.send(q); got.status != http.StatusAccepted && got.status != http.StatusNotFound {
				t.Errorf("a cancel: %d %s", got.status, got.body)
			}
		}
	}
	for range 2 {
		if got := <-done; got.err != nil || !strings.Contains(got.body, "to the end") {
			t.Errorf("a call was cancelled by another: %d %.500s %v", got.status, got.body, got.err)
		}
	}
	// The caller's own cancel works, and keeps the state.
	go func() {
		done <- s.try(request{body: call("79", "kept = 41; import time; time.sleep(60)", ""), headers: []string{"Mcp-Session-Id", own}})
	}()
	s.until("biocage_cells_running", 1)
	s.send(request{body: fmt.Sprintf(cancel, "79"), headers: []string{"Mcp-Session-Id", own}})
	<-done
	if got := s.send(request{body: call("80", "print(kept + 1)", ""), headers: []string{"Mcp-Session-Id", own}}); !strings.Contains(got.body, "42") {
		t.Errorf("after the own cancel: %d %.500s", got.status, got.body)
	}
}

// until waits for a figure.
func (s *server) until(name string, want float64) {
	s.t.Helper()
	var got float64
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = s.figure(name); got == want {
			return
		}
	}
	s.t.Errorf("%s is %v, want %v", name, got, want)
}

// H17: in the revision without sessions an Mcp-Session-Id says nothing,
// whosever it is, and none is given.
func TestWebSessionIdIsNothingToTheNewestRevision(t *testing.T) {
	s := start(t, nil)
	for name, id := range map[string]string{"another's": s.begin(bobToken), "own": s.begin(adaToken), "forged": "made-up"} {
		q := request{body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"web","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`}
		q.headers = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list", "Mcp-Session-Id", id}
		got := s.send(q)
		if got.status != http.StatusOK || !strings.Contains(got.body, "python_run") || got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: %d %.300s, id %q", name, got.status, got.body, got.header.Get("Mcp-Session-Id"))
		}
	}
}
