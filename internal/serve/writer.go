package serve

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const methodProgress = "notifications/progress"

// Bounds of what waits to be written to one client.
const (
	maxNotifications = 256
	maxAnswers       = 4 // more wait in their calls
)

// An answer is a message for the client.
type answer struct {
	line []byte
	call *call // nil for what does not answer a call
}

// A sink takes messages, each as a whole.
type sink interface {
	message(line []byte) error
}

// A writer is the only one that writes to the client and the only consumer of
// notifications. A handler sends its progress before it returns, so whatever
// waits in the channel when an answer comes is older than that answer: it is
// written first, and progress of a settled call is dropped.
type writer struct {
	responder
	out           sink
	calls         *calls
	notifications chan mcp.JSONRPCNotification
	answers       chan answer
	stop          chan struct{} // closed: write what waits, then end
	done          chan struct{} // closed: ended
	failed        chan error    // holds the first write error

	beat   <-chan time.Time // when to show a sign of life; nil: never
	onBeat func() error
}

func newWriter(out sink, r responder, calls *calls) *writer {
	return &writer{
		responder: r, out: out, calls: calls,
		notifications: make(chan mcp.JSONRPCNotification, maxNotifications),
		answers:       make(chan answer, maxAnswers),
		stop:          make(chan struct{}),
		done:          make(chan struct{}),
		failed:        make(chan error, 1),
	}
}

// send hands a message over. It gives up when the writer has ended, or ctx.
func (w *writer) send(ctx context.Context, a answer) error {
	select {
	case w.answers <- a:
		return nil
	case <-w.done:
		return errDisconnected
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes until stop is closed, ctx is done or a write fails.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	for {
		var err error
		select {
		case n := <-w.notifications:
			err = w.notify(ctx, n)
		case a := <-w.answers:
			err = w.answer(ctx, a)
		case <-w.beat:
			err = w.onBeat()
		case <-w.stop:
			w.finish(ctx)
			return
		case <-ctx.Done():
			return
		}
		if err != nil {
			w.failed <- err
			return
		}
	}
}

// finish writes the answers that were handed over before the end.
func (w *writer) finish(ctx context.Context) {
	for {
		select {
		case a := <-w.answers:
			if w.answer(ctx, a) != nil {
				return // the client is gone, and so is everybody who could be told
			}
		default:
			return
		}
	}
}

func (w *writer) answer(ctx context.Context, a answer) error {
	for len(w.notifications) > 0 {
		if err := w.notify(ctx, <-w.notifications); err != nil {
			return err
		}
	}
	if a.call != nil && !w.calls.settle(a.call) || len(a.line) == 0 {
		return nil // abandoned, or what claimed to be request and response at once
	}
	return w.out.message(a.line)
}

func (w *writer) notify(ctx context.Context, n mcp.JSONRPCNotification) error {
	if n.Method == methodProgress && !w.calls.awaits(tokenKey(n.Params.AdditionalFields["progressToken"])) {
		return nil
	}
	line := w.notification(ctx, n)
	if line == nil {
		return nil
	}
	return w.out.message(line)
}
