package serve

import (
	"slices"
	"sync"
	"time"
)

// turns runs the calls of all clients, a bounded number at one time. Those
// that wait are started in a circle of principals, the calls of each in the
// order of arrival, so that one who sends many holds up nobody but himself.
type turns struct {
	total, each, queue int // bounds: running; running and waiting of one principal
	wg                 sync.WaitGroup

	mu      sync.Mutex
	running int              // guarded by mu
	lines   map[string]*line // guarded by mu; of principals with calls
	circle  []*line          // guarded by mu; lines with waiting calls, the next one first
	ended   bool             // guarded by mu
}

// A line is the calls of one principal. Its fields are guarded by turns.mu.
type line struct {
	principal string
	running   int
	waiting   []*turn
}

// A turn is a call's place in its line.
type turn struct {
	line *line
	run  func()
}

func newTurns(total, each, queue int) *turns {
	return &turns{total: total, each: each, queue: queue, lines: map[string]*line{}}
}

// take runs the function in a goroutine, at once or when its turn comes.
func (t *turns) take(principal string, run func()) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, errEnding
	}
	l := t.lines[principal]
	if l == nil {
		l = &line{principal: principal}
		t.lines[principal] = l
	}
	next := &turn{line: l, run: run}
	switch {
	case len(l.waiting) == 0 && l.running < t.each && t.running < t.total:
		t.running++
		l.running++
		t.wg.Go(func() { t.work(next) })
	case len(l.waiting) >= t.queue:
		return nil, errQueueFull
	default:
		if len(l.waiting) == 0 {
			t.circle = append(t.circle, l)
		}
		l.waiting = append(l.waiting, next)
	}
	return next, nil
}

// drop gives up a place: what still waits will not run.
func (t *turns) drop(place *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := place.line
	i := slices.Index(l.waiting, place)
	if i < 0 {
		return
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	t.tidyLocked(l)
}

// work runs a call and then those that waited.
func (t *turns) work(next *turn) {
	for next != nil {
		next.run()
		next = t.next(next.line)
	}
}

// next ends a call of a line and finds the one that takes its place.
func (t *turns) next(done *line) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	done.running--
	defer t.tidyLocked(done)
	i := slices.IndexFunc(t.circle, func(l *line) bool { return l.running < t.each })
	if i < 0 {
		return nil
	}
	l := t.circle[i]
	next := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	t.circle = append(slices.Delete(t.circle, i, i+1), l)
	t.tidyLocked(l)
	t.running++
	l.running++
	return next
}

// tidyLocked takes a line without waiting calls out of the circle, and
// forgets one without calls.
func (t *turns) tidyLocked(l *line) {
	if len(l.waiting) > 0 {
		return
	}
	t.circle = slices.DeleteFunc(t.circle, func(other *line) bool { return other == l })
	if l.running == 0 {
		delete(t.lines, l.principal)
	}
}

// end starts nothing more, and waits for what runs, at most for the given
// time. It tells whether all ended.
func (t *turns) end(wait time.Duration) bool {
	t.mu.Lock()
	t.ended = true
	for _, l := range t.circle {
		l.waiting = nil
	}
	t.circle = nil
	t.mu.Unlock()

	done := make(chan struct{})
	go func() {
		t.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
