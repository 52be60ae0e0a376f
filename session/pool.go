package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// A pool keeps kernels ready so that a session's first call need not wait.
// It refills in the background, one at a time.
type pool struct {
	m    *Manager
	size int

	mu      sync.Mutex
	ready   []*kernel     // guarded by mu
	filling chan struct{} // closed when the fill under way has ended; nil: none; guarded by mu
	lastUse time.Time     // guarded by mu
	stopped bool          // guarded by mu
}

// longestWait is how long a call waits for a kernel that is being made for the
// pool: that one may be stuck, and another may not.
const longestWait = 10 * time.Second

func newPool(m *Manager, size int) *pool {
	return &pool{m: m, size: size, lastUse: time.Now()}
}

// ask takes a kernel for a session, and tells whether there was one.
func (p *pool) ask(ctx context.Context) *kernel {
	if p.size == 0 {
		return nil
	}
	k := p.take(ctx)
	p.m.watch.PoolAsked(k != nil)
	return k
}

// take hands out a healthy kernel, waiting for one that is being made, or nil.
func (p *pool) take(ctx context.Context) *kernel {
	if p.size == 0 {
		return nil
	}
	defer p.fill()
	waited := false
	for {
		k, wait := p.pop()
		switch {
		case k != nil && k.healthy(ctx):
			return k
		case k != nil:
			p.discard(k)
		case wait == nil || waited:
			return nil
		default:
			select {
			case <-wait:
			case <-time.After(longestWait):
			case <-ctx.Done():
				return nil
			}
			waited = true
		}
	}
}

func (p *pool) pop() (*kernel, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastUse = time.Now()
	if n := len(p.ready); n > 0 {
		k := p.ready[n-1]
		p.ready = p.ready[:n-1]
		return k, nil
	}
	return nil, p.filling
}

// fill starts to fill the pool in the background when it is not full.
func (p *pool) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size == 0 || p.stopped || p.filling != nil || len(p.ready) >= p.size {
		return
	}
	done := make(chan struct{})
	p.filling = done
	p.m.spawn(func() { p.fillOne(done) })
}

func (p *pool) fillOne(done chan struct{}) {
	ctx, cancel := context.WithTimeout(p.m.life, p.m.opts.StartTimeout)
	defer cancel()
	k, err := p.make(ctx)
	p.mu.Lock()
	p.filling = nil
	keep := err == nil && !p.stopped
	if keep {
		p.ready = append(p.ready, k)
	}
	p.mu.Unlock()
	close(done)
	switch {
	case err != nil:
		// The next call tells its client; here it is only worth a line.
		p.m.log.DebugContext(ctx, "no sandbox kept ready", slog.Any("error", err))
	case !keep:
		p.discard(k)
	default:
		p.fill()
	}
}

func (p *pool) make(ctx context.Context) (*kernel, error) {
	base, err := p.m.theBase(ctx)
	if err != nil {
		return nil, err
	}
	return p.m.startKernel(ctx, base, "warm")
}

func (p *pool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready)
}

func (p *pool) discard(k *kernel) {
	p.m.spawn(func() {
		if err := k.close(context.WithoutCancel(p.m.life)); err != nil {
			p.m.log.WarnContext(p.m.life, "ready sandbox not fully closed", slog.Any("error", err))
		}
	})
}

// drainWhenIdle gives back what nobody has used for long.
func (p *pool) drainWhenIdle() {
	p.mu.Lock()
	var old []*kernel
	if time.Since(p.lastUse) > p.m.opts.IdleTimeout {
		old, p.ready = p.ready, nil
	}
	p.mu.Unlock()
	for _, k := range old {
		p.discard(k)
	}
}

func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	p.stopped = true
	all := p.ready
	p.ready = nil
	p.mu.Unlock()
	var errs []error
	for _, k := range all {
		errs = append(errs, k.close(ctx))
	}
	return errors.Join(errs...)
}
