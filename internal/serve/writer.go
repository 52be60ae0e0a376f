package serve

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"
)

const methodProgress = "notifications/progress"

// An answer is a line for the client.
type answer struct {
	line []byte
	call *call // nil for what was answered at once
}

// A writer is the only one that writes to the client and the only consumer of
// notifications. A handler sends its progress before it returns, so whatever
// waits in the channel when an answer comes is older than that answer: it is
// written first, and progress of a settled call is dropped.
type writer struct {
	out           io.Writer
	log           *slog.Logger
	calls         *calls
	notifications chan mcp.JSONRPCNotification
	answers       chan answer
	stop          chan struct{} // closed: write what waits, then end
	done          chan struct{} // closed: ended
	failed        chan error    // holds the first write error
}

func newWriter(out io.Writer, log *slog.Logger, calls *calls) *writer {
	return &writer{
		out: out, log: log, calls: calls,
		notifications: make(chan mcp.JSONRPCNotification, 256),
		answers:       make(chan answer, 64),
		stop:          make(chan struct{}),
		done:          make(chan struct{}),
		failed:        make(chan error, 1),
	}
}

// send hands a line over. It gives up when the writer has ended.
func (w *writer) send(a answer) {
	select {
	case w.answers <- a:
	case <-w.done:
	}
}

// run writes until stop is closed or a write fails.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	for {
		var err error
		select {
		case n := <-w.notifications:
			err = w.notify(ctx, n)
		case a := <-w.answers:
			err = w.answer(ctx, a)
		case <-w.stop:
			w.finish(ctx)
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
	if a.call != nil && !w.calls.settle(a.call) {
		return nil
	}
	return w.line(a.line)
}

func (w *writer) notify(ctx context.Context, n mcp.JSONRPCNotification) error {
	if n.Method == methodProgress && !w.calls.awaits(tokenKey(n.Params.AdditionalFields["progressToken"])) {
		return nil
	}
	line, err := json.Marshal(n)
	if err != nil {
		w.log.ErrorContext(ctx, "notification could not be encoded", "method", n.Method, "error", err)
		return nil
	}
	return w.line(line)
}

func (w *writer) line(line []byte) error {
	if len(line) == 0 { // what claimed to be request and response at once
		return nil
	}
	_, err := w.out.Write(append(line, '\n'))
	return err
}
