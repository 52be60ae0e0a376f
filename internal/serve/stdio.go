package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Bounds of a Stdio whose fields are zero.
const (
	defaultMaxLine  = 16 << 20
	defaultMaxCalls = 32
	defaultDrain    = 3 * time.Second
)

// Stdio serves one client over a pair of pipes.
//
// The owner must ignore SIGPIPE, or the process dies with the client. A read
// that waits for input cannot be broken off: when Serve ends for another
// reason, one goroutine stays behind until In delivers or is closed, and
// whatever it still reads is not handled.
type Stdio struct {
	Server *server.MCPServer
	In     io.Reader
	Out    io.Writer
	Log    *slog.Logger

	MaxLine  int           // longest message in bytes; 0: 16 MiB
	MaxCalls int           // calls that run at one time; 0: 32
	Drain    time.Duration // wait for calls at the end; 0: 3 s
}

// Serve answers until the input ends, the client stops reading or ctx is
// done; the first two are normal ends. Calls in flight are cancelled then, and
// not answered.
func (t *Stdio) Serve(ctx context.Context) error {
	c := &conn{
		server:  t.Server,
		log:     t.Log,
		maxLine: orDefault(t.MaxLine, defaultMaxLine),
		calls:   newCalls(orDefault(t.MaxCalls, defaultMaxCalls)),
	}
	c.writer = newWriter(t.Out, t.Log, c.calls)
	client := newClient(c.writer.notifications)
	if err := t.Server.RegisterSession(ctx, client); err != nil {
		return fmt.Errorf("register session: %w", err)
	}
	defer t.Server.UnregisterSession(context.WithoutCancel(ctx), client.SessionID())

	callCtx, cancel := context.WithCancel(t.Server.WithContext(ctx, client))
	defer cancel()
	go c.writer.run(context.WithoutCancel(ctx))
	inputEnd := make(chan error, 1)
	go func() { inputEnd <- c.read(callCtx, t.In) }()

	var err error
	select {
	case err = <-inputEnd:
		if err != nil {
			err = fmt.Errorf("read message: %w", err)
		}
	case err = <-c.writer.failed:
		t.Log.InfoContext(ctx, "client stopped reading", "error", err)
		err = nil
	case <-ctx.Done():
	}
	c.end(ctx, orDefault(t.Drain, defaultDrain))
	return err
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// A conn is one Serve.
type conn struct {
	server  *server.MCPServer
	log     *slog.Logger
	maxLine int
	calls   *calls
	writer  *writer
}

// end cancels and drains the calls, then lets the writer finish. A client that
// does not read holds it up no longer than drain.
func (c *conn) end(ctx context.Context, drain time.Duration) {
	if !c.calls.end(drain) {
		c.log.WarnContext(ctx, "calls did not end in time", "waited", drain)
	}
	close(c.writer.stop)
	timer := time.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-c.writer.done:
	case <-timer.C:
		c.log.WarnContext(ctx, "client does not read its answers", "waited", drain)
	}
}

// read handles messages until the input ends.
func (c *conn) read(ctx context.Context, in io.Reader) error {
	lines := newLineReader(in, c.maxLine)
	for {
		line, err := lines.next()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the session has ended: what the input says does not matter any more
		}
		switch {
		case errors.Is(err, errTooLong):
			c.refuse(ctx, line, fault{mcp.INVALID_REQUEST, fmt.Sprintf("The message is longer than %d bytes; send large files in parts (file_write with append).", c.maxLine)})
		case err == nil && len(line) > 0:
			c.handle(ctx, line)
		case errors.Is(err, io.EOF):
			// The last line may lack its newline; half a message is dropped.
			if json.Valid(line) {
				c.handle(ctx, line)
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// handle deals with one message.
func (c *conn) handle(ctx context.Context, line []byte) {
	m, bad := parse(line)
	switch {
	case bad != nil:
		c.refuse(ctx, m.ID, *bad)
	case m.Method == "": // a response, and this server never asks anything
	case m.Method == string(mcp.MethodNotificationCancelled):
		c.calls.abandon(string(m.Params.RequestID))
	case len(m.ID) == 0 || !isLong(m.Method):
		if line := c.respond(ctx, m, line); line != nil {
			c.writer.send(answer{line: line})
		}
	default:
		c.start(ctx, m, line)
	}
}

// start admits a call that may take long.
func (c *conn) start(ctx context.Context, m message, line []byte) {
	callCtx, cancel := context.WithCancel(ctx)
	next := &call{id: string(m.ID), token: tokenKey(m.Params.Meta.ProgressToken), cancel: cancel}
	next.run = func() {
		defer cancel()
		c.writer.send(answer{line: c.respond(callCtx, m, line), call: next})
	}
	if err := c.calls.admit(next); err != nil {
		cancel()
		c.refuse(ctx, m.ID, fault{mcp.INVALID_REQUEST, "The call was not accepted: " + err.Error() + "."})
	}
}

// respond has the server handle a message; nil means that there is no answer.
func (c *conn) respond(ctx context.Context, m message, line []byte) (encoded []byte) {
	defer func() {
		if value := recover(); value != nil {
			incident := rand.Text()[:8]
			c.log.ErrorContext(ctx, "handler panicked", "incident", incident, "method", m.Method, "panic", value, "stack", string(debug.Stack()))
			encoded = nil
			if len(m.ID) > 0 {
				encoded = c.encode(ctx, m.ID, errorResponse(mcp.NewRequestId(nil),
					fault{mcp.INTERNAL_ERROR, "Internal error; the server's log has it as incident " + incident + "."}))
			}
		}
	}()
	response := c.server.HandleMessage(ctx, line)
	if response == nil || len(m.ID) == 0 {
		return nil
	}
	return c.encode(ctx, m.ID, response)
}

func (c *conn) refuse(ctx context.Context, id json.RawMessage, f fault) {
	c.log.DebugContext(ctx, "message refused", "code", f.code, "reason", f.text)
	c.writer.send(answer{line: c.encode(ctx, id, errorResponse(mcp.NewRequestId(nil), f))})
}

func (c *conn) encode(ctx context.Context, id json.RawMessage, response mcp.JSONRPCMessage) []byte {
	line, err := encode(id, response)
	if err != nil {
		c.log.ErrorContext(ctx, "answer could not be encoded", "error", err)
	}
	return line
}
