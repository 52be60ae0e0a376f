package serve

import (
	"context"
	"sync"
)

// A call is a request that takes its time.
type call struct {
	id     string // as in the message
	token  string // progress token, "" when there is none
	cancel context.CancelCauseFunc
	run    func() // handles the request and sends the answer
	turn   *turn
}

// calls is every call of one client in flight: those that run and those that
// wait for their turn.
type calls struct {
	turns     *turns
	principal string

	mu       sync.Mutex
	inFlight map[string]*call    // guarded by mu; from receipt to answer
	tokens   map[string]struct{} // guarded by mu; progress tokens of calls in flight
	ended    bool                // guarded by mu
}

func newCalls(turns *turns, principal string) *calls {
	return &calls{turns: turns, principal: principal, inFlight: map[string]*call{}, tokens: map[string]struct{}{}}
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
	}
	place, err := c.turns.take(c.principal, next.run)
	if err != nil {
		return err
	}
	next.turn = place
	c.inFlight[next.id] = next
	if next.token != "" {
		c.tokens[next.token] = struct{}{}
	}
	return nil
}

// abandon cancels the call with this id: it will not be answered, and if it
// still waits it will not run.
func (c *calls) abandon(id string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if abandoned := c.inFlight[id]; abandoned != nil {
		c.abandonLocked(abandoned, cause)
	}
}

// drop abandons this very call, whatever else has its id by now.
func (c *calls) drop(dropped *call, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inFlight[dropped.id] == dropped {
		c.abandonLocked(dropped, cause)
	}
}

func (c *calls) abandonLocked(abandoned *call, cause error) {
	c.removeLocked(abandoned)
	c.turns.drop(abandoned.turn)
	abandoned.cancel(cause)
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

// end abandons everything and lets nothing more in or out.
func (c *calls) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, running := range c.inFlight {
		c.abandonLocked(running, cause)
	}
}
