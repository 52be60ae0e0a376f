package tools

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

// progressEvery bounds how often a client hears of a running cell.
const progressEvery = 250 * time.Millisecond

// A reporter sends progress notifications until it is closed. Nothing is sent
// after close returned, so that progress never follows the result.
type reporter struct {
	send func(session.Progress) error

	mu     sync.Mutex
	closed bool          // guarded by mu
	next   time.Duration // guarded by mu; elapsed time before which nothing is sent
}

// reporter gives the function for a request's Progress and the function that
// ends it; the first is nil when nobody asked for progress.
func (t *toolset) reporter(ctx context.Context, token mcp.ProgressToken) (report func(session.Progress), end func()) {
	s := server.ServerFromContext(ctx)
	if token == nil || s == nil {
		return nil, func() {}
	}
	r := &reporter{send: func(p session.Progress) error {
		return s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
			"progressToken": token,
			"progress":      p.Elapsed.Seconds(),
			"message":       progressMessage(p),
		})
	}}
	return func(p session.Progress) {
		// Progress is a courtesy: a client that does not keep up misses some.
		if err := r.report(p); err != nil && !errors.Is(err, server.ErrNotificationChannelBlocked) {
			t.log.DebugContext(ctx, "progress not sent", "error", err)
		}
	}, r.close
}

func (r *reporter) report(p session.Progress) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || p.Elapsed < r.next {
		return nil
	}
	r.next = p.Elapsed + progressEvery
	return r.send(p)
}

func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

func progressMessage(p session.Progress) string {
	text := fmt.Sprintf("running for %s", p.Elapsed.Round(time.Second))
	if p.Bytes > 0 {
		text += ", " + bytesText(p.Bytes) + " of output"
	}
	if last := shorten(oneLine(Sanitize(p.Last)), 200); last != "" {
		text += ": " + last
	}
	return text
}
