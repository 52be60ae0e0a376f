package serve

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// An exchange is one request and its answer: a JSON document, or a stream when
// there is something to say before the answer.
type exchange struct {
	*front
	events events
	w      http.ResponseWriter
	r      *http.Request

	m         message
	body      []byte
	principal string
	isModern  bool
	canStream bool

	notifications chan mcp.JSONRPCNotification
	questions     chan []byte
}

// serve handles the request for a peer.
func (x *exchange) serve(p *peer, calls *calls) {
	c := &client{peer: p}
	if !isLong(x.m.Method) {
		// Nothing is told before an answer that comes at once.
		c.notifications = make(chan mcp.JSONRPCNotification)
		x.finish(x.respond(x.server.WithContext(x.r.Context(), c), x.m, x.body))
		return
	}
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(errDisconnected)
	x.notifications = make(chan mcp.JSONRPCNotification, maxNotifications)
	x.questions = make(chan []byte)
	c.notifications = x.notifications
	if x.canStream && !x.isModern {
		c.send = x.ask
	}
	answered := make(chan reply, 1)
	next := &call{id: string(x.m.ID), token: tokenKey(x.m.Params.Meta.ProgressToken), cancel: cancel}
	next.run = func() { answered <- x.respond(x.server.WithContext(ctx, c), x.m, x.body) }
	if err := calls.admit(next); err != nil {
		x.refuseError(x.w, x.r, x.m.ID, "The call was not accepted", err)
		return
	}
	x.wait(ctx, next, calls, answered)
}

// ask puts a question to the client on this exchange's stream.
func (x *exchange) ask(ctx context.Context, line []byte) error {
	select {
	case x.questions <- line:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait passes on what the call has to say, until it is answered or cancelled.
// It alone writes to the client.
func (x *exchange) wait(ctx context.Context, next *call, calls *calls, answered <-chan reply) {
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	for {
		var err error
		select {
		case n := <-x.notifications:
			err = x.notify(ctx, next, n)
		case line := <-x.questions:
			if err = x.drain(ctx, next); err == nil {
				err = x.events.message(line)
			}
		case <-beat.C:
			err = x.beat()
		case answer := <-answered:
			if err = x.drain(ctx, next); err == nil {
				x.settle(ctx, calls.settle(next), answer)
				return
			}
		case <-x.ending:
			calls.drop(next, errEnding)
			x.conclude(errEnding)
			return
		case <-ctx.Done():
			calls.drop(next, context.Cause(ctx))
			x.conclude(context.Cause(ctx))
			return
		}
		if err != nil {
			x.log.DebugContext(ctx, "client does not read its answer", "error", err)
			calls.drop(next, errDisconnected)
			return
		}
	}
}

// settle writes the answer, if it may still be given.
func (x *exchange) settle(ctx context.Context, may bool, answer reply) {
	if may {
		x.finish(answer)
		return
	}
	x.conclude(context.Cause(ctx))
}

// drain writes what was told before now.
func (x *exchange) drain(ctx context.Context, next *call) error {
	for len(x.notifications) > 0 {
		if err := x.notify(ctx, next, <-x.notifications); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) notify(ctx context.Context, next *call, n mcp.JSONRPCNotification) error {
	if !x.canStream || n.Method == methodProgress && tokenKey(n.Params.AdditionalFields["progressToken"]) != next.token {
		return nil
	}
	line := x.notification(ctx, n)
	if line == nil {
		return nil
	}
	return x.events.message(line)
}

func (x *exchange) beat() error {
	if !x.canStream {
		return nil
	}
	return x.events.beat()
}

// finish writes the answer.
func (x *exchange) finish(answer reply) {
	if x.events.open {
		if err := x.events.message(answer.line); err != nil {
			x.log.DebugContext(x.r.Context(), "answer not sent", "error", err)
		}
		limitWrite(x.w, writeTimeout) // for the end of the stream
		return
	}
	status := http.StatusOK
	if x.isModern {
		status = statusOf(answer.code)
	}
	x.write(x.w, x.r, status, answer.line)
}

// conclude ends an exchange whose call is not answered any more.
func (x *exchange) conclude(cause error) {
	limitWrite(x.w, writeTimeout)
	switch {
	case x.r.Context().Err() != nil: // nobody is left to be told
	case errors.Is(cause, errCancelled):
		// What was cancelled is not answered: the stream just ends.
		if !x.canStream {
			x.refuse(x.w, x.r, http.StatusOK, x.m.ID, fault{mcp.REQUEST_INTERRUPTED, "The request was cancelled."})
		} else if err := x.events.start(); err != nil {
			x.log.DebugContext(x.r.Context(), "stream not ended", "error", err)
		}
		limitWrite(x.w, writeTimeout)
	case x.events.open:
		x.finish(x.refusal(x.r.Context(), x.m.ID, fault{mcp.INTERNAL_ERROR, "The call was ended: " + cause.Error() + "."}))
	case errors.Is(cause, errSessionEnded):
		x.unknownSession(x.w, x.r, x.m)
	default:
		x.refuseError(x.w, x.r, x.m.ID, "The call was ended", cause)
	}
}
