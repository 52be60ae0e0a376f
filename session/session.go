package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A session is one client's interpreter and what it was given. Its kernel
// comes with the first call that needs one and is replaced when it is lost;
// the session goes on and tells what was lost.
type session struct {
	m      *Manager
	owner  owner
	place  place
	handle string
	label  string // for logs and container labels: no secret
	made   time.Time

	admitted chan struct{} // closed when there is room for it, or none
	refused  error         // why there is none; valid after admitted

	turn chan struct{} // capacity 1: held by the run under way, in order of arrival

	mu          sync.Mutex
	boot        *boot      // the kernel or its making; guarded by mu
	run         *run       // the latest run; guarded by mu
	runs        int        // guarded by mu
	cells       int64      // of the present interpreter; guarded by mu
	exposures   []exposure // guarded by mu
	limits      Limits     // the session's own; guarded by mu
	history     history    // guarded by mu
	grants      []string   // host paths that the person allowed for the session; guarded by mu
	undecided   int        // guarded by mu; questions that the person left without an answer
	declined    []string   // and those that they declined; guarded by mu
	pendingLoss string     // a loss of state not yet told; guarded by mu
	lastUse     time.Time  // guarded by mu
	calls       int        // in flight; guarded by mu
	visits      int        // calls so far; guarded by mu
	gone        time.Time  // when its connection went; zero: it is there; guarded by mu
	room        bool       // it holds a place of the manager's rooms; guarded by mu
	ended       bool       // guarded by mu, set under the manager's too
	why         string     // valid when ended; guarded by mu
}

// A boot is a kernel in the making, or made.
type boot struct {
	done   chan struct{}
	cancel context.CancelFunc // gives the making up
	kernel *kernel            // valid after done
	err    error              // valid after done
}

func newSession(m *Manager, o owner, p place, handle string) *session {
	now := time.Now()
	return &session{
		m: m, owner: o, place: p, handle: handle, label: handle[:labelLength], made: now,
		admitted: make(chan struct{}), turn: make(chan struct{}, 1), lastUse: now,
	}
}

// arrive counts a call that begins, depart one that ends; the manager's mutex
// is held, so a session does not end in between.
func (s *session) arrive(n need) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.visits++
	s.gone = time.Time{}
	if n != looks {
		s.lastUse = time.Now()
	}
}

// depart tells whether no other call has been here.
func (s *session) depart(n need) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	if n != looks {
		s.lastUse = time.Now()
	}
	return s.visits == 1
}

// idleFor tells for how long nothing has happened here; mu is held. A look at
// the session is nothing.
func (s *session) idleFor() time.Duration {
	if s.run.running() {
		return 0
	}
	return time.Since(s.lastUse)
}

// endedError is what a call gets that comes too late.
func (s *session) endedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &EndedError{Why: s.why}
}

// kernel gives the session's live kernel, making one when there is none. The
// making is not bound to ctx: when ctx ends, or an answer is due, it goes on for
// the next call.
func (s *session) kernel(ctx context.Context) (*kernel, error) {
	patience := time.NewTimer(s.m.opts.AnswerWithin)
	defer patience.Stop()
	for {
		b, err := s.currentBoot(ctx)
		if err != nil {
			return nil, err
		}
		select {
		case <-b.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-patience.C:
			return nil, &BusyError{Session: s.handle}
		}
		if errors.Is(b.err, errReplaced) {
			continue // there is another one
		}
		if b.err != nil {
			s.forgetBoot(b)
			return nil, s.m.startError(b.err)
		}
		select {
		case <-b.kernel.gone:
			s.lose(b)
		default:
			return b.kernel, nil
		}
	}
}

func (s *session) currentBoot(ctx context.Context) (*boot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, &EndedError{Why: s.why}
	}
	if s.boot == nil {
		// The call lends its values, the manager its end.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.m.opts.StartTimeout)
		stop := context.AfterFunc(s.m.life, cancel)
		b := &boot{done: make(chan struct{}), cancel: func() { stop(); cancel() }}
		s.boot = b
		s.m.spawn(func() { s.start(ctx, b) })
	}
	return s.boot, nil
}

func (s *session) forgetBoot(b *boot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boot == b {
		s.boot = nil
	}
}

// lose notes that the kernel of b has ended by itself, once.
func (s *session) lose(b *boot) {
	s.mu.Lock()
	first := s.boot == b
	if first {
		s.boot = nil
		s.pendingLoss = addLoss(s.pendingLoss, fmt.Sprintf("%s; variables and files of the workspace are gone", b.kernel.why))
	}
	s.mu.Unlock()
	if first {
		s.m.log.WarnContext(s.m.life, "sandbox lost", slog.String("session", s.label), slog.Any("error", b.kernel.why))
		s.discard(b.kernel)
	}
}

func (s *session) discard(k *kernel) {
	s.m.spawn(func() {
		if err := k.close(context.WithoutCancel(s.m.life)); err != nil {
			s.m.log.WarnContext(s.m.life, "sandbox not fully closed", slog.String("session", s.label), slog.Any("error", err))
		}
	})
}

// start fills b: from the pool, or with a new sandbox.
func (s *session) start(ctx context.Context, b *boot) {
	defer b.cancel()
	defer close(b.done)
	k, err := s.startIn(ctx)
	s.mu.Lock()
	b.kernel, b.err = k, err
	switch {
	case s.ended:
		b.err = &EndedError{Why: s.why}
	case err != nil:
	case s.boot != b:
		b.err = errReplaced
	default:
		s.cells = 0
	}
	s.mu.Unlock()
	if err == nil && b.err != nil {
		b.err = errors.Join(b.err, k.close(context.WithoutCancel(ctx)))
	}
}

func (s *session) startIn(ctx context.Context) (*kernel, error) {
	base, err := s.base(ctx)
	if err != nil {
		return nil, err
	}
	return s.fresh(ctx, base, s.ownLimits().needsOwnSandbox())
}

// fresh gives a kernel that nobody has used, with the session's exposures: a
// ready one, unless its limits are the session's own. Owners take turns.
func (s *session) fresh(ctx context.Context, base Base, own bool) (*kernel, error) {
	if err := s.m.starts.wait(ctx, s.owner); err != nil {
		return nil, err
	}
	defer s.m.starts.leave(s.owner)
	var k *kernel
	if !own {
		k = s.m.pool.ask(ctx)
	}
	if k == nil {
		var err error
		if k, err = s.m.startKernel(ctx, base, s.label); err != nil {
			return nil, s.withOthers(err)
		}
	}
	if err := s.restoreExposures(ctx, base, k); err != nil {
		return nil, errors.Join(err, k.close(context.WithoutCancel(ctx)))
	}
	return k, nil
}

// withOthers adds to a refusal which sessions the caller could close.
func (s *session) withOthers(err error) error {
	if tooMany, ok := errors.AsType[*TooManyError](err); ok {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		tooMany.Own = s.m.own(s.owner, s)
	}
	return err
}
