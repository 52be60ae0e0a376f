package session

import "sync"

// overcommit is how many times over a machine's memory may be promised: a
// limit is what a sandbox may take, and most take a small part of it.
const overcommit = 4

// promises adds up the memory limits of the sandboxes that live.
type promises struct {
	mu    sync.Mutex
	bytes int64 // guarded by mu
}

// give promises memory to one more sandbox, unless the machine (0: not known)
// has promised too much already; a first one is always made. drop takes it
// back.
func (p *promises) give(bytes, machine int64) (drop func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if machine > 0 && p.bytes > 0 && p.bytes+bytes > overcommit*machine {
		return nil, &TooManyError{Promised: p.bytes}
	}
	p.bytes += bytes
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.bytes -= bytes
	}, nil
}
