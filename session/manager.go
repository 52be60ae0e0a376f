package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// A Manager owns all sessions of one server.
type Manager struct {
	opts Options
	log  *slog.Logger

	life context.Context //nolint:containedctx // bounds the goroutines that the manager itself owns
	stop context.CancelFunc
	work sync.WaitGroup // every goroutine that the manager or a session started
	pool *pool

	watch Observer

	baseTurn chan struct{} // capacity 1: held while base is being made

	minter   minter
	rooms    *fair    // a place for each session
	starts   *fair    // a place for each sandbox in the making
	promises promises // of memory, to each sandbox that lives

	mu       sync.Mutex          // before a session's
	closed   bool                // guarded by mu
	base     *Base               // guarded by mu
	sessions map[string]*session // by handle; guarded by mu
	places   map[place]*session  // guarded by mu
	past     memory              // guarded by mu
}

// NewManager starts a manager; Close ends it. ctx carries values only: its
// end does not end the sessions.
func NewManager(ctx context.Context, opts Options) *Manager {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	if opts.HandleKey == nil {
		opts.HandleKey = []byte(rand.Text())
	}
	if opts.MaxEach == 0 {
		opts.MaxEach = opts.MaxSessions
	}
	if opts.Starts == 0 {
		opts.Starts = 2
	}
	if opts.Observer == nil {
		opts.Observer = unobserved{}
	}
	m := &Manager{
		watch: opts.Observer,
		opts:  opts, log: opts.Logger, life: life, stop: stop,
		baseTurn: make(chan struct{}, 1),
		minter:   minter{key: opts.HandleKey},
		rooms:    newFair(opts.MaxSessions),
		starts:   newFair(opts.Starts),
		sessions: map[string]*session{},
		places:   map[place]*session{},
		past:     newMemory(),
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
		m.spawn(func() { errs <- m.end(ctx, s, EndShutdown, "the server is shutting down") })
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
