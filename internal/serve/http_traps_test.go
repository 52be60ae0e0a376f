package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// post sends in the background and gives status and body when they come.
func (w *web) post(body string, headers ...string) <-chan string {
	answered := make(chan string, 1)
	r := w.request("POST", "/mcp", body, headers...)
	go func() {
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		data, _ := io.ReadAll(response.Body)
		answered <- fmt.Sprintf("%d %s", response.StatusCode, data)
	}()
	return answered
}

func cancelOf(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

func TestACancelReachesOnlyTheOwnSession(t *testing.T) {
	h := newHeld()
	w := serveWeb(t, Limits{}, h.tool())
	mine, other := w.begin(initialize), w.begin(initialize)
	answered := w.post(callLine("1", "hold", `"mine"`), headerSession, mine)
	within(t, h.started, "the call")
	// Neither another session, nor one without a session, nor the other era.
	w.expect(202, "", "POST", "/mcp", cancelOf("1"), headerSession, other)
	w.expect(202, "", "POST", "/mcp", cancelOf("1"))
	w.expect(202, "", "POST", "/mcp", cancelOf("1"), "Mcp-Protocol-Version", "2026-07-28", headerSession, mine)
	w.expect(400, "in use", "POST", "/mcp", callLine("1", "hold", ""), headerSession, mine)
	if got := h.cancelled.Load(); got != 0 {
		t.Fatal("a stranger cancelled the call")
	}
	w.expect(202, "", "POST", "/mcp", cancelOf("1"), headerSession, mine)
	if got := within(t, answered, "the end of the cancelled call"); got != "200 " {
		t.Errorf("the cancelled call was answered: %s", got)
	}
	within(t, h.ended, "the cancel")
	// Its id is free again.
	answered = w.post(callLine("1", "hold", `"again"`), headerSession, mine)
	within(t, h.started, "the second call")
	h.release <- struct{}{}
	if got := within(t, answered, "the answer"); !strings.Contains(got, "released") {
		t.Errorf("got %s", got)
	}
}

func TestWithoutSessionsNobodyCancelsAnother(t *testing.T) {
	h := newHeld()
	w := serveWeb(t, Limits{}, h.tool())
	body, headers := modernCall("1", "hold", `"x"`)
	victim, sameID := w.post(body, headers...), w.post(body, headers...)
	within(t, h.started, "the call")
	within(t, h.started, "another's call with the same id")
	w.expect(202, "", "POST", "/mcp", cancelOf("1"), "Mcp-Protocol-Version", "2026-07-28")
	w.expect(202, "", "POST", "/mcp", strings.Replace(cancelOf("1"), `"requestId"`, metaWith("")+`,"requestId"`, 1), "Mcp-Protocol-Version", "2026-07-28")
	close(h.release)
	for _, answered := range []<-chan string{victim, sameID} {
		if got := within(t, answered, "the answer"); !strings.Contains(got, "released") {
			t.Errorf("got %s", got)
		}
	}
	if got := h.cancelled.Load(); got != 0 {
		t.Errorf("%d calls were cancelled", got)
	}
}

func TestClosingTheConnectionCancelsItsCall(t *testing.T) {
	for _, isModern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", isModern), func(t *testing.T) {
			h := newHeld()
			w := serveWeb(t, Limits{CallsEach: 1, Calls: 1}, h.tool())
			id := w.begin(initialize)
			call := func(n string) (*http.Request, context.CancelFunc) {
				body, headers := modernCall(n, "hold", `"x"`)
				if !isModern {
					body, headers = callLine(n, "hold", `"x"`), []string{headerSession, id}
				}
				r := w.request("POST", "/mcp", body, headers...)
				ctx, cancel := context.WithCancel(t.Context())
				return r.WithContext(ctx), cancel
			}
			hangUp := func(r *http.Request, cancel context.CancelFunc, running bool) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					if response, err := http.DefaultClient.Do(r); err == nil {
						response.Body.Close()
					}
				}()
				if running {
					within(t, h.started, "the call")
				}
				cancel()
				<-done
			}
			r, cancel := call("1")
			hangUp(r, cancel, true)
			within(t, h.ended, "the cancel of the running call")

			r, cancel = call("2")
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if response, err := http.DefaultClient.Do(r); err == nil {
					response.Body.Close()
				}
			}()
			within(t, h.started, "the second call")
			waiting, cancelWaiting := call("3")
			hangUp(waiting, cancelWaiting, false) // waits for its turn, or never came
			cancel()
			within(t, answered, "the end of the second call")
			within(t, h.ended, "its cancel")
			w.expect(200, "{}", "POST", "/mcp", `{"jsonrpc":"2.0","id":"p","method":"ping"}`, headerSession, id)
		})
	}
}

func TestTheEndOfASessionCancelsItsCalls(t *testing.T) {
	h := newHeld()
	w := serveWeb(t, Limits{}, h.tool())
	id := w.begin(initialize)
	stream, _, _ := w.open("GET", "/mcp", "", headerSession, id)
	answered := w.post(callLine("1", "hold", ""), headerSession, id)
	within(t, h.started, "the call")
	w.expect(204, "", "DELETE", "/mcp", "", headerSession, id)
	if got := within(t, answered, "the answer"); !strings.HasPrefix(got, "404 ") {
		t.Errorf("got %s", got)
	}
	within(t, h.ended, "the cancel")
	if event, ok := <-stream; ok {
		t.Errorf("the stream goes on: %s", event)
	}
	within(t, w.gone, "the end of the session")
}

func TestProgressOfOneCallIsNotAnothers(t *testing.T) {
	w := serveWeb(t, Limits{}, steps(50))
	id := w.begin(initialize)
	stream, _, _ := w.open("GET", "/mcp", "", headerSession, id)
	var group sync.WaitGroup
	for n := range 16 {
		token := fmt.Sprintf(`"t%d"`, n)
		r := w.request("POST", "/mcp", callLine(fmt.Sprint(n), "steps", token), headerSession, id)
		group.Go(func() {
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			data, err := io.ReadAll(response.Body)
			if err != nil {
				t.Error(err)
			}
			if got := strings.Count(string(data), `"progressToken":`+token); got != 50 || strings.Count(string(data), "progressToken") != 50 {
				t.Errorf("call %d got %d of its 50 notifications, and %d at all", n, got, strings.Count(string(data), "progressToken"))
			}
		})
	}
	group.Wait()
	if len(stream) != 0 {
		t.Errorf("the session's stream got %s", <-stream)
	}
}

func TestBodies(t *testing.T) {
	const limit = 1 << 20
	w := serveWeb(t, Limits{Body: limit}, who())
	id := w.begin(initialize)
	mine := []string{headerSession, id}
	long := `{"jsonrpc":"2.0","id":1,"method":"ping","x":"` + strings.Repeat("x", limit) + `"}`
	w.expect(413, `"id":1,"error":{"code":-32600,"message":"The message is longer than 1048576 bytes; send large files in parts`, "POST", "/mcp", long, mine...)
	far := w.request("POST", "/mcp", "", mine...)
	far.Body, far.ContentLength = io.NopCloser(strings.NewReader("x")), maxSkipped+1
	if response, err := http.DefaultTransport.RoundTrip(far); err == nil {
		response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a far too long body: %d", response.StatusCode)
		}
	}
	chunked := w.request("POST", "/mcp", "", mine...)
	chunked.Body, chunked.ContentLength = io.NopCloser(strings.NewReader(long)), -1
	response, err := http.DefaultClient.Do(chunked)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body without a length: %d", response.StatusCode)
	}
	for _, tt := range []struct {
		name, body, want string
		status           int
	}{
		{"empty", "", "-32700", 400},
		{"noise", "hello", "-32700", 400},
		{"half a message", `{"jsonrpc":"2.0"`, "-32700", 400},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "Batches are not supported", 400},
		{"a number", "42", "-32600", 400},
		{"deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", 400_000) + strings.Repeat("]", 400_000) + `}`, "-32", 400},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "-32600", 400},
		{"a long id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 5000) + `","method":"ping"}`, "-32600", 400},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"nope"}`, "-32601", 200},
		{"a large id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `"id":9007199254740993,"result"`, 200},
		{"an answer to nothing", `{"jsonrpc":"2.0","id":1,"result":{}}`, "", 202},
		{"space around", " \n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n ", `"result"`, 200},
		{"initialize without an id", strings.Replace(initialize, `"id":0,`, "", 1), "with an id", 400},
	} {
		t.Run(tt.name, func(t *testing.T) { w.expect(tt.status, tt.want, "POST", "/mcp", tt.body, mine...) })
	}
	t.Run("invalid UTF-8", func(t *testing.T) {
		status, text, _ := w.do("POST", "/mcp", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", mine...)
		if status != 400 && !strings.Contains(text, "-32601") {
			t.Errorf("%d %s", status, text)
		}
	})
	w.expect(415, "Content-Encoding", "POST", "/mcp", "x", "Content-Encoding", "gzip")
}

func TestLongAnswersAreErrors(t *testing.T) {
	w := serveWeb(t, Limits{}, tool("long", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", maxAnswer)), nil
	}))
	w.expect(200, `"id":1,"error":{"code":-32603,"message":"The answer has 1`, "POST", "/mcp", callLine("1", "long", ""), headerSession, w.begin(initialize))
}

func TestSessionsAreBounded(t *testing.T) {
	w := serveWeb(t, Limits{Sessions: 5, SessionsEach: 3}, who())
	var ids []string
	for range 3 {
		ids = append(ids, w.begin(initialize, "X-Who", "alice"))
	}
	w.expect(429, "you have too many sessions", "POST", "/mcp", initialize, "X-Who", "alice")
	w.begin(initialize, "X-Who", "bob")
	w.begin(initialize, "X-Who", "bob")
	w.expect(503, "the server has too many sessions", "POST", "/mcp", initialize, "X-Who", "bob")
	w.expect(503, "too many sessions", "GET", "/sse", "", "X-Who", "carol")
	w.expect(204, "", "DELETE", "/mcp", "", "X-Who", "alice", headerSession, ids[0])
	w.begin(initialize, "X-Who", "carol")
	// Nothing but initialize and /sse makes one.
	for range 100 {
		w.expect(404, "", "GET", "/mcp", "", headerSession, newMinter().mint(""))
	}
}

func TestStreamsOfASessionAreBounded(t *testing.T) {
	w := serveWeb(t, Limits{})
	id := w.begin(initialize)
	for range maxStreams {
		_, _, header := w.open("GET", "/mcp", "", headerSession, id)
		if header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("headers %v", header)
		}
	}
	w.expect(429, "too many streams", "GET", "/mcp", "", headerSession, id)
}

func TestOneWhoFloodsDoesNotStarveOthers(t *testing.T) {
	h := newHeld()
	w := serveWeb(t, Limits{Calls: 4, CallsEach: 2, Queue: 3}, h.tool(), who())
	noisy := []string{"X-Who", "noisy", headerSession, w.begin(initialize, "X-Who", "noisy")}
	answers := make(chan string, 10)
	for n := range 10 {
		answered := w.post(callLine(fmt.Sprint(n), "hold", ""), noisy...)
		go func() { answers <- <-answered }()
	}
	for range 5 { // two run and three wait
		if got := within(t, answers, "a refusal"); !strings.HasPrefix(got, "429 ") || !strings.Contains(got, "too many calls wait") {
			t.Errorf("got %s", got)
		}
	}
	w.expect(200, "principal=other", "POST", "/mcp", callLine("1", "who", ""), "X-Who", "other", headerSession, w.begin(initialize, "X-Who", "other"))
	close(h.release)
	for range 5 {
		if got := within(t, answers, "an answer"); !strings.Contains(got, "released") {
			t.Errorf("got %s", got)
		}
	}
}

func TestTheEndTellsCallsInFlight(t *testing.T) {
	h := newHeld()
	w := serveWeb(t, Limits{}, h.tool())
	id := w.begin(initialize)
	stream, _, _ := w.open("GET", "/mcp", "", headerSession, id)
	body, headers := modernCall("1", "hold", "")
	answers := []<-chan string{w.post(callLine("1", "hold", ""), headerSession, id), w.post(body, headers...)}
	within(t, h.started, "a call")
	within(t, h.started, "another")
	w.stop()
	for _, answered := range answers {
		if got := within(t, answered, "the answer"); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "shutting down") {
			t.Errorf("got %s", got)
		}
	}
	if event, ok := <-stream; ok {
		t.Errorf("the stream goes on: %s", event)
	}
	within(t, w.gone, "the end of the session")
	if got := h.cancelled.Load(); got != 2 {
		t.Errorf("%d calls were cancelled", got)
	}
}

func TestManyDisconnectsLeaveNothing(t *testing.T) {
	h := newHeld()
	w := serveWeb(t, Limits{}, h.tool())
	id := w.begin(initialize)
	before := runtime.NumGoroutine()
	const rounds = 250
	for n := range rounds {
		for _, message := range []string{
			"POST /mcp HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: " + id + "\r\nContent-Length: %d\r\n\r\n%s",
			"POST /mcp HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: " + id + "\r\nContent-Length: 9%d\r\n\r\n%s", // half closed in the body
			"GET /mcp HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: " + id + "\r\n\r\n",
			"GET /sse HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(message, "POST") {
				body := callLine(fmt.Sprint(n), "hold", "")
				message = fmt.Sprintf(message, len(body), body)
			}
			if _, err := io.WriteString(c, message); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
	}
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > before+5 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond) // goroutines of net/http tell nobody of their end
	}
	if got := runtime.NumGoroutine(); got > before+5 {
		t.Errorf("%d goroutines, there were %d before", got, before)
	}
	w.expect(200, "{}", "POST", "/mcp", `{"jsonrpc":"2.0","id":"p","method":"ping"}`, headerSession, id)
}
