package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// A Base is what every session's sandbox is made from.
type Base struct {
	Engine      sandbox.Engine
	Spec        sandbox.Spec // complete but for Session
	Environment string       // its name, for people
	Preload     []string     // modules that the zygote imports
	Packages    []string     // names that hints may offer as installed
	// Mounts are present in every session from its start, beneath a live root,
	// the workspace or the temporary folder; other places are in Spec.Mounts.
	Mounts []ExposeRequest
}

// A HostRoot is a host folder from which Expose may take files.
type HostRoot struct {
	Path string
	Mode sandbox.Mode // the most that an exposure beneath it may get
}

// Options configure a Manager. Durations and sizes must be positive unless
// said otherwise.
type Options struct {
	// Base is called when the first sandbox is needed, and again after it
	// failed: choosing an engine may block and must not delay a start.
	Base func(ctx context.Context) (Base, error)

	Timeout        time.Duration // of a run that names none
	MaxTimeout     time.Duration // the most that a run may ask for
	AnswerWithin   time.Duration // when Run answers "running"
	InterruptGrace time.Duration // between an interrupt and the kill
	QueueWait      time.Duration // how long one run may hold up a call behind it
	StartTimeout   time.Duration // for making a sandbox ready
	MaxOutput      int64         // bytes kept of each text of a run
	StopOnFailure  bool          // a failed run ends the sandbox

	IdleTimeout time.Duration
	MaxSessions int
	Warm        int // sandboxes kept ready; 0: none

	Roots []HostRoot

	Logger *slog.Logger
}

// A Manager owns all sessions of one server.
type Manager struct {
	opts Options
	log  *slog.Logger

	life context.Context //nolint:containedctx // bounds the goroutines that the manager itself owns
	stop context.CancelFunc
	work sync.WaitGroup // every goroutine that the manager or a session started
	pool *pool

	baseTurn chan struct{} // capacity 1: held while base is being made

	mu       sync.Mutex
	closed   bool                // guarded by mu
	base     *Base               // guarded by mu
	sessions map[string]*session // by handle; guarded by mu
	defaults map[string]*session // by scope; guarded by mu
	ended    map[string]string   // why a handle or scope is no more; guarded by mu
}

// NewManager starts a manager; Close ends it. ctx carries values only: its
// end does not end the sessions.
func NewManager(ctx context.Context, opts Options) *Manager {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	m := &Manager{
		opts: opts, log: opts.Logger, life: life, stop: stop,
		baseTurn: make(chan struct{}, 1),
		sessions: map[string]*session{},
		defaults: map[string]*session{},
		ended:    map[string]string{},
	}
	m.pool = newPool(m, opts.Warm)
	m.spawn(m.expire)
	return m
}

// Prepare begins to keep sandboxes ready (Options.Warm), in the background.
func (m *Manager) Prepare() { m.pool.fill() }

// spawn runs f on a goroutine that Close waits for.
func (m *Manager) spawn(f func()) { m.work.Go(f) }

// Close ends every session and returns when nothing of them is left, or when
// ctx ends.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	all := make([]*session, 0, len(m.sessions))
	for _, s := range m.sessions {
		all = append(all, s)
	}
	base := m.base
	m.mu.Unlock()
	m.stop()

	errs := make(chan error, len(all))
	for _, s := range all {
		m.spawn(func() { errs <- s.end(ctx, "the server is shutting down") })
	}
	var failed []error
	for range all {
		failed = append(failed, <-errs)
	}
	failed = append(failed, m.pool.close(ctx))
	done := make(chan struct{})
	go func() { m.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		failed = append(failed, fmt.Errorf("close sessions: %w", context.Cause(ctx)))
	}
	if base != nil {
		failed = append(failed, base.Engine.Close())
	}
	return errors.Join(failed...)
}

// find gives the session that ref names; create makes the scope's own one
// when it is not there.
func (m *Manager) find(ref Ref, create bool) (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if ref.Handle != "" {
		s := m.sessions[ref.Handle]
		if s == nil || s.scope != ref.Scope {
			return nil, unknown(m.ended[ref.Handle])
		}
		return s, nil
	}
	if s := m.defaults[ref.Scope]; s != nil {
		return s, nil
	}
	if !create {
		return nil, nil
	}
	if len(m.sessions) >= m.opts.MaxSessions {
		return nil, ErrTooMany
	}
	s := newSession(m, ref.Scope, newHandle())
	if why := m.ended[ref.Scope]; why != "" {
		s.pendingLoss = why
		delete(m.ended, ref.Scope)
	}
	m.sessions[s.handle] = s
	m.defaults[ref.Scope] = s
	return s, nil
}

func unknown(why string) error {
	if why == "" {
		return ErrUnknown
	}
	return fmt.Errorf("%w: it ended because %s", ErrUnknown, why)
}

// newHandle makes an unguessable name: 130 random bits.
func newHandle() string { return "sbx_" + rand.Text() }

// remembered bounds how many ended sessions can still be explained.
const remembered = 1000

// remove forgets a session that has ended.
func (m *Manager) remove(s *session, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.handle] != s {
		return
	}
	delete(m.sessions, s.handle)
	if len(m.ended) >= remembered {
		clear(m.ended)
	}
	m.ended[s.handle] = why
	if m.defaults[s.scope] == s {
		delete(m.defaults, s.scope)
		m.ended[s.scope] = why
	}
}

// theBase gives the base, made at first need. One caller makes it while the
// others wait; a failure is told to each and tried again by the next.
func (m *Manager) theBase(ctx context.Context) (Base, error) {
	select {
	case m.baseTurn <- struct{}{}:
		defer func() { <-m.baseTurn }()
	case <-ctx.Done():
		return Base{}, context.Cause(ctx)
	}
	m.mu.Lock()
	known := m.base
	m.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	base, err := m.opts.Base(ctx)
	if err != nil {
		return Base{}, err
	}
	m.mu.Lock()
	m.base = &base
	m.mu.Unlock()
	return base, nil
}

// Engine names the engine once it has been chosen, else "".
func (m *Manager) Engine() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base == nil {
		return ""
	}
	return m.base.Engine.Name()
}

// expire ends sessions that have been idle for too long.
func (m *Manager) expire() {
	tick := time.NewTicker(max(m.opts.IdleTimeout/20, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-m.life.Done():
			return
		case <-tick.C:
			m.expireNow()
		}
	}
}

func (m *Manager) expireNow() {
	m.mu.Lock()
	var idle []*session
	for _, s := range m.sessions {
		if s.idle() >= m.opts.IdleTimeout {
			idle = append(idle, s)
		}
	}
	m.mu.Unlock()
	why := fmt.Sprintf("it was idle for %s (session.idle_timeout)", m.opts.IdleTimeout)
	for _, s := range idle {
		m.spawn(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(m.life), closeTimeout)
			defer cancel()
			if err := s.end(ctx, why); err != nil {
				m.log.WarnContext(ctx, "idle session not fully closed", slog.String("session", s.label), slog.Any("error", err))
			}
		})
	}
	m.pool.drainWhenIdle()
}
