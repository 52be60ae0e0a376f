package session

import (
	"context"
	"slices"
	"sync"
)

// An owner is whom a session counts for: the authenticated principal, or the
// connection where nobody is asked for a name.
type owner struct{ principal, connection string }

// A fair shares a number of places among owners. The next place goes to the
// waiting owner that holds the fewest, then to the one that got its last one
// longest ago: however many calls one owner makes at once, another's first
// call waits for one place to come free, and not for all of them.
type fair struct {
	mu     sync.Mutex
	free   int              // guarded by mu
	turn   uint64           // counts what happens; guarded by mu
	owners map[owner]*share // those that hold or wait; guarded by mu
}

// A share is what one owner has of the places.
type share struct {
	held    int
	last    uint64 // the turn of its latest place
	since   uint64 // the turn when its queue began, to break ties
	waiting []chan struct{}
}

func newFair(places int) *fair {
	return &fair{free: places, owners: map[owner]*share{}}
}

// take gets a place if one is free now.
func (f *fair) take(o owner) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.free == 0 {
		return false
	}
	f.give(f.share(o))
	return true
}

// wait gets a place, or the cause of ctx's end.
func (f *fair) wait(ctx context.Context, o owner) error {
	if f.take(o) {
		return nil
	}
	ready := make(chan struct{})
	f.mu.Lock()
	s := f.share(o)
	if len(s.waiting) == 0 {
		f.turn++
		s.since = f.turn
	}
	s.waiting = append(s.waiting, ready)
	f.serve() // one may have come free since
	f.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(s.waiting, ready); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		f.forget(o)
	} else {
		f.put(o) // it came at the last moment
	}
	return context.Cause(ctx)
}

// leave gives a place back.
func (f *fair) leave(o owner) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(o)
}

func (f *fair) put(o owner) {
	f.owners[o].held--
	f.free++
	f.serve()
	f.forget(o)
}

// serve hands the free places out.
func (f *fair) serve() {
	for f.free > 0 {
		var next *share
		for _, s := range f.owners {
			if len(s.waiting) > 0 && (next == nil || s.before(next)) {
				next = s
			}
		}
		if next == nil {
			return
		}
		close(next.waiting[0])
		next.waiting = next.waiting[1:]
		f.give(next)
	}
}

func (s *share) before(other *share) bool {
	switch {
	case s.held != other.held:
		return s.held < other.held
	case s.last != other.last:
		return s.last < other.last
	}
	return s.since < other.since
}

func (f *fair) give(s *share) {
	f.free--
	f.turn++
	s.held++
	s.last = f.turn
}

func (f *fair) share(o owner) *share {
	s := f.owners[o]
	if s == nil {
		s = &share{}
		f.owners[o] = s
	}
	return s
}

// forget keeps the table as small as what is held and waited for.
func (f *fair) forget(o owner) {
	if s := f.owners[o]; s != nil && s.held == 0 && len(s.waiting) == 0 {
		delete(f.owners, o)
	}
}
