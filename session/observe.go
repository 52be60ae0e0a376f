package session

import (
	"context"
	"time"
)

// An Observer is told what happens to sessions, for figures. Its methods must
// not block and not call the manager; several goroutines call them at once.
// Every word that they get is one of this package's.
type Observer interface {
	SessionBegan()
	// SessionEnded gives one of the End words.
	SessionEnded(reason string)
	// CellEnded gives "ok" or the Kind of a RunError, and whether the
	// interpreter was lost with the cell or had been before it.
	CellEnded(kind string, took time.Duration, restarted bool)
	// SandboxMade tells of the making of a sandbox that code can run in.
	SandboxMade(ok bool, took time.Duration)
	// PoolAsked tells whether a ready sandbox was there for a session.
	PoolAsked(hit bool)
}

// Why sessions end, in a word.
const (
	EndIdle      = "idle"      // nobody used it for IdleTimeout
	EndGone      = "gone"      // its client went away
	EndUnclaimed = "unclaimed" // nobody came back to it
	EndClosed    = "closed"    // its client closed it
	EndShutdown  = "shutdown"  // the server ended
	EndFailed    = "failed"    // there was no room or no sandbox for it, nobody knows it
)

// unobserved is the Observer of managers that have none.
type unobserved struct{}

func (unobserved) SessionBegan()                         {}
func (unobserved) SessionEnded(string)                   {}
func (unobserved) CellEnded(string, time.Duration, bool) {}
func (unobserved) SandboxMade(bool, time.Duration)       {}
func (unobserved) PoolAsked(bool)                        {}

// Counts is how much there is now.
type Counts struct {
	Sessions int
	Running  int // sessions in which a cell runs
	Ready    int // sandboxes kept ready
}

// Counts counts.
func (m *Manager) Counts() Counts {
	m.mu.Lock()
	c := Counts{Sessions: len(m.sessions)}
	for _, s := range m.sessions {
		s.mu.Lock()
		if s.run.running() {
			c.Running++
		}
		s.mu.Unlock()
	}
	m.mu.Unlock()
	c.Ready = m.pool.count()
	return c
}

// outcome names how a run went, in a word.
func (r RunResult) outcome() string {
	if r.Error != nil {
		return r.Error.Kind
	}
	return outcomeOK
}

const outcomeOK = "ok"

// step begins a part of a trace.
func (m *Manager) step(ctx context.Context, name string) (context.Context, func(outcome string)) {
	if m.opts.Trace == nil {
		return ctx, func(string) {}
	}
	return m.opts.Trace(ctx, name)
}

// stepEnd names how a step ended that has no result.
func stepEnd(err error) string {
	if err != nil {
		return KindSandbox
	}
	return outcomeOK
}
