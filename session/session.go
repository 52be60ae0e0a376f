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
	scope  string
	handle string
	label  string // for logs and container labels: no secret

	turn chan struct{} // capacity 1: held by the run under way, in order of arrival

	mu          sync.Mutex
	boot        *boot      // the kernel or its making; guarded by mu
	run         *run       // the latest run; guarded by mu
	runs        int        // guarded by mu
	cells       int64      // of the present interpreter; guarded by mu
	exposures   []exposure // guarded by mu
	limits      Limits     // the session's own; guarded by mu
	pendingLoss string     // a loss of state not yet told; guarded by mu
	lastUse     time.Time  // guarded by mu
	calls       int        // in flight; guarded by mu
	ended       bool       // guarded by mu
}

// A boot is a kernel in the making, or made.
type boot struct {
	done   chan struct{}
	kernel *kernel // valid after done
	err    error   // valid after done
}

func newSession(m *Manager, scope, handle string) *session {
	return &session{
		m: m, scope: scope, handle: handle, label: handle[:12],
		turn: make(chan struct{}, 1), lastUse: time.Now(),
	}
}

// use marks the session as in use until the returned function is called.
func (s *session) use() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.lastUse = time.Now()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls--
		s.lastUse = time.Now()
	}
}

// idle tells for how long nothing has happened here.
func (s *session) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls > 0 || s.run.running() {
		return 0
	}
	return time.Since(s.lastUse)
}

// kernel gives the session's live kernel, making one when there is none. The
// making is not bound to ctx: when ctx ends, or an answer is due, it goes on for
// the next call.
func (s *session) kernel(ctx context.Context) (*kernel, error) {
	patience := time.NewTimer(s.m.opts.AnswerWithin)
	defer patience.Stop()
	for {
		b, err := s.currentBoot()
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

func (s *session) currentBoot() (*boot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, ErrUnknown
	}
	if s.boot == nil {
		b := &boot{done: make(chan struct{})}
		s.boot = b
		s.m.spawn(func() { s.start(b) })
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
		s.pendingLoss = fmt.Sprintf("%s; variables and files of the workspace are gone", b.kernel.why)
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
func (s *session) start(b *boot) {
	ctx, cancel := context.WithTimeout(s.m.life, s.m.opts.StartTimeout)
	defer cancel()
	defer close(b.done)
	k, err := s.startIn(ctx)
	s.mu.Lock()
	b.kernel, b.err = k, err
	switch {
	case err != nil:
	case s.ended:
		b.err = ErrUnknown
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
// ready one, unless its limits are the session's own.
func (s *session) fresh(ctx context.Context, base Base, own bool) (*kernel, error) {
	var k *kernel
	if !own {
		k = s.m.pool.take(ctx)
	}
	if k == nil {
		var err error
		if k, err = s.m.startKernel(ctx, base, s.label); err != nil {
			return nil, err
		}
	}
	if err := s.restoreExposures(ctx, base, k); err != nil {
		return nil, errors.Join(err, k.close(context.WithoutCancel(ctx)))
	}
	return k, nil
}

// takeLoss gives the loss that no answer has told yet, once.
func (s *session) takeLoss() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	loss := s.pendingLoss
	s.pendingLoss = ""
	return loss
}

// end closes the session for good.
func (s *session) end(ctx context.Context, why string) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil
	}
	s.ended = true
	b, r := s.boot, s.run
	s.boot = nil
	s.mu.Unlock()
	s.m.remove(s, why)
	if r.running() {
		r.halt(KindCancelled, "The session ended: "+why+".")
	}
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return fmt.Errorf("end session: %w", context.Cause(ctx))
	}
	if b.err != nil {
		return nil //nolint:nilerr // told to whoever asked for it; nothing is left of it
	}
	if err := b.kernel.close(ctx); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}
