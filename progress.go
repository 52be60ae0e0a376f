package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/biocypher/biocage-mcp/environment"
)

// A progress shows how a build is doing: one line that changes on a terminal,
// a line for each step elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	every    time.Duration // between changes of the line

	mu    sync.Mutex
	last  string    // guarded by mu; the step that was shown
	shown time.Time // guarded by mu
	open  bool      // guarded by mu; the line has no end yet
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), every: 100 * time.Millisecond}
}

func (d *progress) show(p environment.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	step := p.Phase + ": " + p.Message
	fresh := step != d.last
	if !fresh && (!d.terminal || time.Since(d.shown) < d.every) {
		return
	}
	d.last, d.shown = step, time.Now()
	if !d.terminal {
		d.write(step + "\n")
		return
	}
	if p.Total > 0 {
		step += fmt.Sprintf(" %d%%", 100*min(p.Done, p.Total)/p.Total)
	}
	d.open = true
	d.write("\r\x1b[K" + step)
}

// end completes the line.
func (d *progress) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open {
		d.write("\r\x1b[K")
		d.open = false
	}
}

func (d *progress) write(text string) {
	_, _ = io.WriteString(d.w, text) // a display that fails does not stop a build
}
