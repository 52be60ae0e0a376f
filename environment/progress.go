package environment

import (
	"sync"
	"time"
)

// Phases of a build, in order.
const (
	phaseTools    = "tools"
	phaseBase     = "base system"
	phaseSystem   = "system packages"
	phaseLock     = "lock"
	phasePython   = "python packages"
	phaseBytecode = "bytecode"
	phaseCheck    = "check"
	phaseFinish   = "finish"
)

// Progress tells how a build is doing.
type Progress struct {
	Phase   string // "base system", "python packages" ...
	Message string
	// Done and Total count within the phase: bytes of a download, packages
	// otherwise. Total is 0 when it is not known.
	Done, Total int64
}

// progressInterval keeps a fast phase from flooding whoever shows progress.
const progressInterval = 100 * time.Millisecond

// A reporter hands progress on: every change of phase and every message of its
// own at once, counts at most every progressInterval. It may be used from
// several goroutines.
type reporter struct{ state *reporterState }

type reporterState struct {
	send func(Progress)
	mu   sync.Mutex
	last time.Time // guarded by mu
}

func newReporter(send func(Progress)) reporter {
	return reporter{state: &reporterState{send: send}}
}

// say reports a message at once.
func (r reporter) say(phase, message string) {
	r.report(Progress{Phase: phase, Message: message}, true)
}

// progress reports a count, unless one was reported just before.
func (r reporter) progress(phase, message string, done, total int64) {
	r.report(Progress{Phase: phase, Message: message, Done: done, Total: total}, false)
}

func (r reporter) report(p Progress, always bool) {
	if r.state == nil || r.state.send == nil {
		return
	}
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	now := time.Now()
	if !always && now.Sub(r.state.last) < progressInterval {
		return
	}
	r.state.last = now
	r.state.send(p)
}
