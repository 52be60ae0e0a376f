package session

import (
	"context"
	"strings"
)

// A loss of state is told by an answer that somebody reads: by that of the
// call that met it, else by the session's next run.

// takeLoss gives the loss that no answer has told yet, once.
func (s *session) takeLoss() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	loss := s.pendingLoss
	s.pendingLoss = ""
	return loss
}

// addLoss puts two losses together in the order in which they happened.
func addLoss(first, second string) string {
	switch {
	case first == "" || strings.Contains(second, first):
		return second
	case second == "" || strings.Contains(first, second):
		return first
	}
	return first + "; then " + second
}

// attend notes that a call waits for the run's result.
func (s *session) attend(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.readers++
}

// unattend notes that a call waits no longer, and whether it has the result.
func (s *session) unattend(r *run, read bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.readers--
	r.read = r.read || read
	if r.passed {
		s.reclaim(r)
	}
}

// reclaim takes over what the result of an earlier run tells of losses, when
// nobody has read it or still may; mu is held.
func (s *session) reclaim(r *run) {
	if r == nil || r.running() || r.read || !r.result.Restarted {
		return
	}
	r.passed = true
	if r.readers > 0 {
		return // unattend comes back to it
	}
	r.read = true // by the run that tells of it
	loss := r.result.RestartReason
	if r.reset && !r.lost { // its interpreter's end was asked for
		loss = r.earlier
	}
	s.pendingLoss = addLoss(loss, s.pendingLoss)
}

// settleLoss forgets the losses that a reset makes pointless to tell: all, but
// for those of files that it was to keep. The run that it ended may have no
// result yet. mu is held.
func (s *session) settleLoss(ctx context.Context, keepFiles, replaced bool) {
	r := s.run
	if !keepFiles {
		s.pendingLoss = ""
	}
	switch {
	case r.running() && !replaced:
		r.reset = true
	case keepFiles:
		s.reclaim(r)
	case r != nil:
		r.read = true
	}
	if ctx.Err() != nil {
		s.pendingLoss = addLoss(s.pendingLoss, lateReset(keepFiles))
	}
}
