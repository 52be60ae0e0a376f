package serve

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// maxQueued bounds the calls that wait for their turn.
const maxQueued = 1024

// Reasons not to admit a call.
var (
	errDuplicateID = errors.New("the request id is in use by a call that runs")
	errQueueFull   = errors.New("too many calls wait already")
	errEnding      = errors.New("the server is shutting down")
)

// A call is a request that takes its time.
type call struct {
	id     string // as in the message
	token  string // progress token, "" when there is none
	cancel func()
	run    func() // handles the request and sends the answer
}

// calls is every call in flight: those that run and those that wait for their
// turn, in the order of arrival.
type calls struct {
	limit int
	wg    sync.WaitGroup

	mu       sync.Mutex
	inFlight map[string]*call    // guarded by mu; from receipt to answer
	tokens   map[string]struct{} // guarded by mu; progress tokens of calls in flight
	queue    []*call             // guarded by mu
	running  int                 // guarded by mu
	ended    bool                // guarded by mu
}

func newCalls(limit int) *calls {
	return &calls{limit: limit, inFlight: map[string]*call{}, tokens: map[string]struct{}{}}
}

// admit takes a call in: it starts at once or waits for its turn.
func (c *calls) admit(next *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return errEnding
	case c.inFlight[next.id] != nil:
		return errDuplicateID
	case len(c.queue) >= maxQueued:
		return errQueueFull
	}
	c.inFlight[next.id] = next
	if next.token != "" {
		c.tokens[next.token] = struct{}{}
	}
	if c.running >= c.limit {
		c.queue = append(c.queue, next)
		return nil
	}
	c.running++
	c.wg.Go(func() { c.work(next) })
	return nil
}

// work runs a call and then those that waited.
func (c *calls) work(next *call) {
	for next != nil {
		next.run()
		next = c.dequeue()
	}
}

func (c *calls) dequeue() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.running--
		return nil
	}
	next := c.queue[0]
	c.queue = slices.Delete(c.queue, 0, 1)
	return next
}

// abandon cancels the call with this id: it will not be answered, and if it
// still waits it will not run.
func (c *calls) abandon(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	abandoned := c.inFlight[id]
	if abandoned == nil {
		return
	}
	c.removeLocked(abandoned)
	c.queue = slices.DeleteFunc(c.queue, func(waiting *call) bool { return waiting == abandoned })
	abandoned.cancel()
}

// settle ends a call's time in flight and tells whether it may be answered:
// not when it was abandoned, nor after the end.
func (c *calls) settle(done *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.inFlight[done.id] != done {
		return false
	}
	c.removeLocked(done)
	return true
}

// awaits tells whether a progress token belongs to a call in flight.
func (c *calls) awaits(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.tokens[token]
	return ok && !c.ended
}

func (c *calls) removeLocked(done *call) {
	delete(c.inFlight, done.id)
	delete(c.tokens, done.token)
}

// end cancels everything, lets nothing more in or out, and waits for what
// runs, at most for the given time. It tells whether all ended.
func (c *calls) end(wait time.Duration) bool {
	c.mu.Lock()
	c.ended = true
	c.queue = nil
	for _, running := range c.inFlight {
		running.cancel()
	}
	c.mu.Unlock()

	done := make(chan struct{})
	go func() {
		c.wg.Wait()
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
