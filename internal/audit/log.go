package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

// tellEvery is how often the server's log says that lines are being lost.
const tellEvery = time.Minute

// Options configure a Log.
type Options struct {
	Path     string // absolute
	Content  bool   // the code of python_run too
	Required bool   // no call without a line: calls are refused while none can be written
	PID      int    // of the server, for lines of several in one file
	Logger   *slog.Logger
}

// A Log appends a line for each call.
type Log struct {
	opts Options

	mu   sync.Mutex
	open map[*tools.Call]struct{} // calls without a line so far; guarded by mu
	file *os.File                 // nil: closed; guarded by mu
	torn bool                     // the last line lacks its end; guarded by mu
	lost int64                    // lines since the last that was written; guarded by mu
	told time.Time                // when the server's log said so; guarded by mu
}

var _ tools.Observer = (*Log)(nil)

// Open opens the file, or makes it for its owner alone.
func Open(ctx context.Context, opts Options) (*Log, error) {
	l := &Log{opts: opts, open: map[*tools.Call]struct{}{}}
	if err := l.reopen(ctx); err != nil {
		return nil, fmt.Errorf("log.audit: %w; name a file that this user may write, or leave log.audit empty", err)
	}
	return l, nil
}

// Begin implements tools.Observer.
func (l *Log) Begin(ctx context.Context, c *tools.Call) (context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return ctx, session.ErrClosed
	}
	l.open[c] = struct{}{}
	if l.opts.Required && l.lost > 0 {
		// The line of this refusal is the next attempt.
		return ctx, &session.SandboxError{Message: "The audit log cannot be written, and log.audit_required refuses calls without it; " +
			"nothing was done. Free the disk of the server's machine, then call again."}
	}
	return ctx, nil
}

// End implements tools.Observer.
func (l *Log) End(ctx context.Context, c *tools.Call, e tools.End) {
	text := l.line(c, e) // hashing is done before the lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, isOpen := l.open[c]; !isOpen {
		return // Close has written its line
	}
	delete(l.open, c)
	l.append(ctx, text)
}

// Close writes a line for every call that has not ended, and closes the file.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		l.append(ctx, l.line(c, tools.End{Kind: KindEnded, Took: time.Since(c.Began)}))
	}
	clear(l.open)
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	if err != nil {
		return fmt.Errorf("close the audit log: %w", err)
	}
	return nil
}

// append writes one line, at once, so that lines of several processes do not
// mix. A line that cannot be written is counted, and the count is in the next.
func (l *Log) append(ctx context.Context, text line) {
	text.Lost = l.lost
	err := l.write(ctx, text)
	if err == nil {
		l.lost = 0
		return
	}
	l.lost++
	if now := time.Now(); l.told.IsZero() || now.Sub(l.told) >= tellEvery {
		l.told = now
		l.opts.Logger.ErrorContext(ctx, "audit lines could not be written", slog.Int64("lost", l.lost), slog.Any("error", err))
	}
}

func (l *Log) write(ctx context.Context, text line) error {
	encoded, err := json.Marshal(text)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := l.follow(ctx); err != nil {
		return err
	}
	whole := append(encoded, '\n')
	if l.torn {
		whole = bytes.Join([][]byte{{'\n'}, whole}, nil)
	}
	n, err := l.file.Write(whole)
	if err == nil {
		l.torn = false
		return nil
	}
	l.torn = l.torn || n > 0
	return err
}

// follow opens the file anew when its name means another one, or none:
// somebody has moved it away to keep it.
func (l *Log) follow(ctx context.Context) error {
	named, err := os.Stat(l.opts.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return l.reopen(ctx)
	case err != nil:
		return err
	}
	mine, err := l.file.Stat()
	if err != nil {
		return err
	}
	if os.SameFile(named, mine) {
		return nil
	}
	return l.reopen(ctx)
}

// reopen opens the file that has the name now, and keeps the one before when
// that fails.
func (l *Log) reopen(ctx context.Context) error {
	file, err := open(l.opts.Path)
	if err != nil {
		return err
	}
	old := l.file
	l.file = file
	if l.torn, err = endsTorn(file); err != nil {
		return err
	}
	if old == nil {
		return nil
	}
	if err := old.Close(); err != nil {
		l.opts.Logger.WarnContext(ctx, "audit log that was moved away not fully closed", slog.Any("error", err))
	}
	return nil
}

func open(path string) (*os.File, error) {
	// A pipe would hold its opener up, and a device keeps nothing.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
}

// endsTorn tells whether a file's last line lacks its end: the disk was full.
func endsTorn(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}
