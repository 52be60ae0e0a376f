package serve

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/requestid"
)

// sse is the older transport: one stream carries all messages to the client,
// who posts his to the address that the stream tells first.
func (f *front) sse(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(errDisconnected)
	out := &events{w: w, within: f.limits.Write}
	var c *conn
	s, err := f.sessions.open(ctx, f.whose(ctx), func(s *session) {
		c = newConn(f.responder, s.peer, s.calls, out)
		callCtx := f.server.WithContext(ctx, c.client())
		s.deliver = func(posted context.Context, m message, line []byte) {
			c.dispatch(requestid.Copy(callCtx, posted), m, line)
		}
	})
	if err != nil {
		f.refuseError(w, r, nil, "The session was not begun", err)
		return
	}
	defer f.sessions.release(s)
	defer f.sessions.end(context.WithoutCancel(ctx), s, errDisconnected)
	if err := f.server.RegisterSession(ctx, c.client()); err != nil {
		f.log.ErrorContext(ctx, "session not registered", "error", err)
		f.refuse(w, r, http.StatusInternalServerError, nil, fault{mcp.INTERNAL_ERROR, "The session could not be begun; try again."})
		return
	}
	f.log.DebugContext(ctx, "stream begun", "connection", shortOf(s.id))
	untimed(w)
	defer limitWrite(w, writeTimeout)
	if err := out.event("endpoint", "/message?sessionId="+url.QueryEscape(s.id)); err != nil {
		return // the client is gone
	}
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	c.writer.beat, c.writer.onBeat = beat.C, out.beat
	go func() {
		select {
		case <-s.done:
			cancel(errSessionEnded)
		case <-ctx.Done():
		}
	}()
	c.writer.run(ctx)
	select {
	case err := <-c.writer.failed:
		f.log.DebugContext(ctx, "client does not read its stream", "error", err)
	default:
	}
}

// message takes a message to the stream that its address names.
func (f *front) message(w http.ResponseWriter, r *http.Request) {
	body, size, ok := f.readBody(w, r)
	if !ok {
		return
	}
	defer f.bodies.give(size)
	m, bad := parse(body)
	if bad != nil {
		f.refuse(w, r, http.StatusBadRequest, m.ID, *bad)
		return
	}
	s := f.sessions.use(r.URL.Query().Get("sessionId"), f.whose(r.Context()))
	if s == nil || s.deliver == nil {
		f.refuse(w, r, http.StatusNotFound, m.ID, fault{mcp.INVALID_REQUEST, "There is no such stream, or it has ended; open a new one with GET /sse."})
		return
	}
	defer f.sessions.release(s)
	s.deliver(r.Context(), m, body)
	limitWrite(w, writeTimeout)
	w.WriteHeader(http.StatusAccepted)
}
