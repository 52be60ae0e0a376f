package serve

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxStreams bounds the streams that one protocol session listens on.
const maxStreams = 4

// When there are too many protocol sessions, those may make room that nobody
// uses at the moment and that were not used for so long. One that never called
// anything has no state to lose: some clients begin a session for every
// conversation and never end it.
const (
	idleForRoom   = 30 * time.Minute
	unusedForRoom = time.Minute
)

// A session is a protocol session: what an Mcp-Session-Id names, or a stream
// of SSE.
type session struct {
	*peer
	calls         *calls
	notifications chan mcp.JSONRPCNotification // for streams that belong to no request
	done          chan struct{}                // closed at the end

	// deliver takes a message from beside the stream; nil but for SSE.
	deliver func(posted context.Context, m message, line []byte)

	uses    int       // guarded by sessions.mu; requests and streams at the moment
	streams int       // guarded by sessions.mu
	last    time.Time // guarded by sessions.mu; of the last use
	called  bool      // guarded by sessions.mu; called something at least once
	ended   bool      // guarded by sessions.mu
}

// sessions are the protocol sessions of all clients.
type sessions struct {
	*minter
	turns     *turns
	max, each int                             // of all and of one principal
	idle      time.Duration                   // one that nobody used for so long ends
	onEnd     func(context.Context, *session) // called once for every session that has ended

	mu    sync.Mutex
	byID  map[string]*session // guarded by mu
	held  map[string]int      // guarded by mu; by principal
	ended bool                // guarded by mu
}

func newSessions(turns *turns, limits Limits, onEnd func(context.Context, *session)) *sessions {
	return &sessions{
		minter: newMinter(), turns: turns, max: limits.Sessions, each: limits.SessionsEach, idle: limits.Idle, onEnd: onEnd,
		byID: map[string]*session{}, held: map[string]int{},
	}
}

// open begins a session, which is in use until release. setup completes it
// before anybody can find it.
func (t *sessions) open(ctx context.Context, principal string, setup func(*session)) (*session, error) {
	s := &session{
		peer:          &peer{id: t.mint(principal), principal: principal},
		calls:         newCalls(t.turns, principal),
		notifications: make(chan mcp.JSONRPCNotification, maxNotifications),
		done:          make(chan struct{}),
		uses:          1,
		last:          time.Now(),
	}
	if setup != nil {
		setup(s)
	}
	for {
		idlest, err := t.add(s)
		if err == nil || idlest == nil {
			return s, err
		}
		t.end(ctx, idlest, errSessionEnded)
	}
}

// add enters a session. When there is no room it names a session that may
// make room, or none.
func (t *sessions) add(s *session) (idlest *session, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
		return nil, errEnding
	case t.held[s.principal] >= t.each:
		return t.idlestLocked(s.principal), errOwnSessions
	case len(t.byID) >= t.max:
		return t.idlestLocked(s.principal), errAllSessions
	}
	t.byID[s.id] = s
	t.held[s.principal]++
	return nil, nil
}

// idlestLocked finds the session of a principal that may make room.
func (t *sessions) idlestLocked(principal string) (idlest *session) {
	for _, s := range t.byID {
		quiet := unusedForRoom
		if s.called {
			quiet = idleForRoom
		}
		if s.principal == principal && s.uses == 0 && time.Since(s.last) >= quiet && (idlest == nil || s.last.Before(idlest.last)) {
			idlest = s
		}
	}
	return idlest
}

// use finds a session that is the principal's, and holds it until release;
// nil when there is none.
func (t *sessions) use(id, principal string) *session {
	if !t.isOwn(id, principal) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s == nil || s.principal != principal {
		return nil
	}
	s.uses++
	return s
}

func (t *sessions) release(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.uses--
	s.last = time.Now()
}

// listen counts a stream, and tells whether the session may have it.
func (t *sessions) listen(s *session, by int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if by > 0 && s.streams >= maxStreams {
		return false
	}
	s.streams += by
	return true
}

// noteCall notes that the session has called something.
func (t *sessions) noteCall(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.called = true
}

// end ends a session: its calls are cancelled and its streams end.
func (t *sessions) end(ctx context.Context, s *session, cause error) {
	t.mu.Lock()
	if s.ended {
		t.mu.Unlock()
		return
	}
	s.ended = true
	delete(t.byID, s.id)
	if t.held[s.principal]--; t.held[s.principal] == 0 {
		delete(t.held, s.principal)
	}
	t.mu.Unlock()

	close(s.done)
	s.calls.end(cause)
	t.onEnd(ctx, s)
}

// sweep ends the sessions that nobody used for too long.
func (t *sessions) sweep(ctx context.Context) {
	t.mu.Lock()
	var quiet []*session
	for _, s := range t.byID {
		if s.uses == 0 && time.Since(s.last) >= t.idle {
			quiet = append(quiet, s)
		}
	}
	t.mu.Unlock()
	for _, s := range quiet {
		t.end(ctx, s, errSessionEnded)
	}
}

// endAll ends every session and begins no more.
func (t *sessions) endAll(ctx context.Context, cause error) {
	t.mu.Lock()
	t.ended = true
	all := make([]*session, 0, len(t.byID))
	for _, s := range t.byID {
		all = append(all, s)
	}
	t.mu.Unlock()
	for _, s := range all {
		t.end(ctx, s, cause)
	}
}
