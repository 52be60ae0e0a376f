package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// headerSession carries the id of a protocol session.
const headerSession = mcp.HeaderSessionID

// Limits bound what clients may use up. A zero value is the default.
type Limits struct {
	Body         int64         // of one message; 16 MiB
	Calls        int           // that run at one time; 64
	CallsEach    int           // of one principal; 32
	Queue        int           // calls of one principal that wait; 256
	Sessions     int           // protocol sessions at one time; 1024
	SessionsEach int           // of one principal; 512
	Idle         time.Duration // a protocol session that nobody used for so long ends; 12 h
	Connections  int           // at one time; 256
	Write        time.Duration // for a client to read what a stream brings; 20 s
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Body:         orDefault(l.Body, defaultMaxLine),
		Calls:        orDefault(l.Calls, 64),
		CallsEach:    orDefault(l.CallsEach, defaultMaxCalls),
		Queue:        orDefault(l.Queue, 256),
		Sessions:     orDefault(l.Sessions, 1024),
		SessionsEach: orDefault(l.SessionsEach, 512),
		Idle:         orDefault(l.Idle, 12*time.Hour),
		Connections:  orDefault(l.Connections, 256),
		Write:        orDefault(l.Write, writeTimeout),
	}
}

const (
	beatInterval  = 15 * time.Second // between signs of life on a quiet stream
	sweepInterval = time.Minute
	minBodies     = 256 << 20 // messages of all clients together, at least
)

// A front handles the requests of all clients.
type front struct {
	responder
	whose    func(context.Context) string
	limits   Limits
	turns    *turns
	sessions *sessions
	bodies   *budget
	share    *share
	ending   chan struct{} // closed at the end
}

func newFront(t *HTTP) *front {
	limits := t.Limits.orDefaults()
	f := &front{
		responder: responder{server: t.Server, log: t.Log},
		whose:     t.Principal,
		limits:    limits,
		turns:     newTurns(limits.Calls, limits.CallsEach, limits.Queue),
		bodies:    &budget{left: max(minBodies, 4*limits.Body)},
		share:     newShare(limits.Connections),
		ending:    make(chan struct{}),
	}
	if f.whose == nil {
		f.whose = func(context.Context) string { return "" }
	}
	f.sessions = newSessions(f.turns, limits, f.forget)
	return f
}

// forget tells of the end of a session.
func (f *front) forget(ctx context.Context, s *session) {
	f.server.UnregisterSession(context.WithoutCancel(ctx), s.id)
	f.log.DebugContext(ctx, "protocol session ended", "connection", shortOf(s.id))
}

// routes are the addresses that clients use.
func (f *front) routes(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/mcp", "/mcp/{$}"} {
		mux.HandleFunc("POST "+path, f.post)
		mux.HandleFunc("GET "+path, f.stream)
		mux.HandleFunc("DELETE "+path, f.remove)
	}
	mux.HandleFunc("GET /sse", f.sse)
	mux.HandleFunc("POST /message", f.message)
	mux.HandleFunc("GET /healthz", f.health)
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return f.fair(mux)
}

// health tells whether the server takes calls.
func (f *front) health(w http.ResponseWriter, r *http.Request) {
	status, text := http.StatusOK, `{"status":"ok"}`
	select {
	case <-f.ending:
		status, text = http.StatusServiceUnavailable, `{"status":"ending"}`
	default:
	}
	f.write(w, r, status, []byte(text))
}

// refuse answers with an error, as an HTTP status and as JSON-RPC.
func (f *front) refuse(w http.ResponseWriter, r *http.Request, status int, id json.RawMessage, bad fault) {
	f.log.DebugContext(r.Context(), "message refused", "status", status, "code", bad.code, "reason", bad.text)
	f.write(w, r, status, f.refusal(r.Context(), id, bad).line)
}

// refuseError answers with the reason why something was not begun.
func (f *front) refuseError(w http.ResponseWriter, r *http.Request, id json.RawMessage, what string, err error) {
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, errQueueFull) || errors.Is(err, errOwnSessions):
		status = http.StatusTooManyRequests
	case errors.Is(err, errEnding) || errors.Is(err, errAllSessions):
		status = http.StatusServiceUnavailable
	}
	if status != http.StatusBadRequest {
		w.Header().Set("Retry-After", "5")
	}
	f.refuse(w, r, status, id, fault{mcp.INVALID_REQUEST, what + ": " + err.Error() + "."})
}

// write answers with JSON.
func (f *front) write(w http.ResponseWriter, r *http.Request, status int, line []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	limitWrite(w, writeTimeout)
	w.WriteHeader(status)
	if _, err := w.Write(append(line, '\n')); err != nil {
		f.log.DebugContext(r.Context(), "answer not sent", "error", err)
	}
}

// end lets nothing more in, ends everything, and waits for the calls, at most
// for the given time. It tells whether all ended.
func (f *front) end(ctx context.Context, wait time.Duration) bool {
	close(f.ending)
	f.sessions.endAll(ctx, errEnding)
	return f.turns.end(wait)
}
