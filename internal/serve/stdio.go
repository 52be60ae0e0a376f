package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Bounds of a Stdio whose fields are zero.
const (
	defaultMaxLine  = 16 << 20
	defaultMaxCalls = 32
	defaultMaxQueue = 1024
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
	limit := orDefault(t.MaxCalls, defaultMaxCalls)
	turns := newTurns(limit, limit, defaultMaxQueue)
	c := newConn(responder{server: t.Server, log: t.Log}, &peer{id: "stdio"}, newCalls(turns, ""), lines{t.Out})
	client := c.client()
	if err := t.Server.RegisterSession(ctx, client); err != nil {
		return fmt.Errorf("register session: %w", err)
	}
	defer t.Server.UnregisterSession(context.WithoutCancel(ctx), client.SessionID())

	callCtx, cancel := context.WithCancel(t.Server.WithContext(ctx, client))
	defer cancel()
	go c.writer.run(context.WithoutCancel(ctx))
	inputEnd := make(chan error, 1)
	go func() { inputEnd <- t.read(callCtx, c) }()

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
	drain := orDefault(t.Drain, defaultDrain)
	c.calls.end(errEnding)
	if !turns.end(drain) {
		t.Log.WarnContext(ctx, "calls did not end in time", "waited", drain)
	}
	c.end(ctx, drain)
	return err
}

func orDefault[T int | int64 | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// lines writes each message as a line.
type lines struct{ w io.Writer }

func (l lines) message(line []byte) error {
	_, err := l.w.Write(append(line, '\n'))
	return err
}

// read handles messages until the input ends.
func (t *Stdio) read(ctx context.Context, c *conn) error {
	maxLine := orDefault(t.MaxLine, defaultMaxLine)
	input := newLineReader(t.In, maxLine)
	for {
		line, err := input.next()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the session has ended: what the input says does not matter any more
		}
		switch {
		case errors.Is(err, errTooLong):
			c.refuse(ctx, line, fault{mcp.INVALID_REQUEST, tooLong(maxLine)})
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

// tooLong says what to do about a message that is.
func tooLong(limit int) string {
	return fmt.Sprintf("The message is longer than %d bytes; send large files in parts (file_write with append).", limit)
}
