package serve

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// A conn is a connection on which all messages to the client go through one
// stream: the pipe of stdio, the stream of SSE.
type conn struct {
	responder
	peer   *peer
	calls  *calls
	writer *writer
}

func newConn(r responder, p *peer, calls *calls, out sink) *conn {
	c := &conn{responder: r, peer: p, calls: calls}
	c.writer = newWriter(out, r, c.calls)
	return c
}

// client is the peer as mcp-go sees it on this connection.
func (c *conn) client() *client {
	return &client{peer: c.peer, notifications: c.writer.notifications, send: func(ctx context.Context, line []byte) error {
		return c.writer.send(ctx, answer{line: line})
	}}
}

// handle deals with one message.
func (c *conn) handle(ctx context.Context, line []byte) {
	m, bad := parse(line)
	if bad != nil {
		c.refuse(ctx, m.ID, *bad)
		return
	}
	c.dispatch(ctx, m, line)
}

// dispatch deals with a message that could be read.
func (c *conn) dispatch(ctx context.Context, m message, line []byte) {
	switch {
	case m.Method == "":
		c.peer.asks.answer(m)
	case m.Method == string(mcp.MethodNotificationCancelled):
		c.calls.abandon(string(m.Params.RequestID), errCancelled)
	case len(m.ID) == 0 || !isLong(m.Method):
		c.write(ctx, c.respond(ctx, m, line))
	default:
		c.start(ctx, m, line)
	}
}

// start admits a call that may take long.
func (c *conn) start(ctx context.Context, m message, line []byte) {
	callCtx, cancel := context.WithCancelCause(ctx)
	next := &call{id: string(m.ID), token: tokenKey(m.Params.Meta.ProgressToken), cancel: cancel}
	next.run = func() {
		defer cancel(nil)
		// Who answers does not end with the call: whether it may be answered
		// is the writer's to find out.
		c.send(context.WithoutCancel(ctx), answer{line: c.respond(callCtx, m, line).line, call: next})
	}
	if err := c.calls.admit(next); err != nil {
		cancel(err)
		c.refuse(ctx, m.ID, fault{mcp.INVALID_REQUEST, "The call was not accepted: " + err.Error() + "."})
	}
}

func (c *conn) refuse(ctx context.Context, id json.RawMessage, f fault) {
	c.log.DebugContext(ctx, "message refused", "code", f.code, "reason", f.text)
	c.write(ctx, c.refusal(ctx, id, f))
}

func (c *conn) write(ctx context.Context, r reply) {
	if r.line != nil {
		c.send(ctx, answer{line: r.line})
	}
}

// send hands an answer over. When it cannot be, the connection has ended.
func (c *conn) send(ctx context.Context, a answer) {
	if err := c.writer.send(ctx, a); err != nil {
		c.log.DebugContext(ctx, "answer not sent", "error", err)
	}
}

// end lets the writer finish. A client that does not
// read holds it up no longer than wait.
func (c *conn) end(ctx context.Context, wait time.Duration) {
	close(c.writer.stop)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.writer.done:
	case <-timer.C:
		c.log.WarnContext(ctx, "client does not read its answers", "waited", wait)
	}
}
