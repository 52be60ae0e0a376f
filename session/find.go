package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A place is where a session is found without its handle: the connection
// whose own it is, or a name within its owner's scope. The zero place is none.
type place struct {
	owner      owner
	connection string
	name       string
}

// place gives where ref, which carries no handle, points.
func (r Ref) place() place {
	switch {
	case r.Handle != "":
		return place{owner: r.owner(), name: r.Handle}
	case r.Connection != "":
		return place{owner: r.owner(), connection: r.Connection}
	}
	return place{}
}

// A need says what a call does when its session is not there.
type need int

const (
	begins need = iota // makes it
	looks              // makes it only when it is a connection's own, and does not count as its use
	reads              // makes it only when it is a connection's own
	needs              // never makes it
)

func (n need) mayBegin(p place) bool { return n == begins || n != needs && p.connection != "" }

// A visit is one call in a session; leave ends it.
type visit struct {
	*session
	need  need
	begun string // what the client must pass to come back, if this call began the session
}

// enter finds or makes the session that ref names, and waits for its room.
// A connection that has none yet gives nil when need does not make it.
func (m *Manager) enter(ctx context.Context, ref Ref, n need) (*visit, error) {
	m.mu.Lock()
	s, begun, err := m.find(ref, n)
	if s != nil {
		s.arrive(n)
	}
	m.mu.Unlock()
	if s == nil {
		return nil, err
	}
	v := &visit{session: s, need: n, begun: begun}
	select {
	case <-s.admitted:
		err = s.refused
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		v.leave(ctx, err)
		return nil, err
	}
	return v, nil
}

// leave ends a visit. A session that nobody could come back to, or that a
// failed call named, ends with it; a connection's own stays for its next call.
func (v *visit) leave(ctx context.Context, err error) {
	s, m := v.session, v.m
	busy, isBusy := errors.AsType[*BusyError](err)
	if isBusy {
		busy.Begun = v.begun
	}
	m.mu.Lock()
	alone := s.depart(v.need)
	failed := err != nil && !isBusy || s.place == (place{}) && ctx.Err() != nil
	orphan := v.begun != "" && s.place.connection == "" && alone && failed && !m.closed && m.bury(s, EndFailed, "")
	m.mu.Unlock()
	if orphan {
		m.finishLater(s)
	}
}

// find gives the session that ref names, or makes it, if need allows; begun
// is then what the client has to pass from now on. m.mu is held.
func (m *Manager) find(ref Ref, n need) (s *session, begun string, err error) {
	if m.closed {
		return nil, "", ErrClosed
	}
	if IsHandle(ref.Handle) {
		s, err = m.byHandle(ref)
		return s, "", err
	}
	p := ref.place()
	if err := p.check(); err != nil {
		return nil, "", err
	}
	if s := m.places[p]; s != nil && p != (place{}) {
		return s, "", nil
	}
	if !n.mayBegin(p) {
		return nil, "", m.missing(ref, p)
	}
	if s, err = m.begin(ref, p); err != nil {
		return nil, "", err
	}
	return s, s.passedAs(), nil
}

// passedAs is what the client passes as session to come back; "" where nobody
// is asked for a name, and the connection, a pipe, is the only way back.
func (s *session) passedAs() string {
	switch {
	case s.place.name != "":
		return s.place.name
	case s.place.connection != "" && s.owner.principal == "":
		return ""
	}
	return s.handle
}

// check refuses what cannot name a session.
func (p place) check() error {
	bad := func(text string) error { return &ArgumentError{Argument: "session", Message: text} }
	switch {
	case p.name == "":
		return nil
	case !isName(p.name):
		return bad(fmt.Sprintf("session must be a handle from an earlier answer (%s…), or a name of your own of at most %d lower-case letters, digits and hyphens; leave it out to use your own session.", handlePrefix, maxName))
	case p.owner == owner{}:
		return bad("A session can only have a name where the server knows its client; leave session out, and pass the handle that the answer tells.")
	}
	return nil
}

// byHandle gives the session of a handle. A handle that was made for another
// principal is answered exactly as one that was never made.
func (m *Manager) byHandle(ref Ref) (*session, error) {
	if !m.minter.made(ref.Handle, ref.Principal) {
		return nil, ErrUnknown
	}
	if s := m.sessions[ref.Handle]; s != nil {
		return s, nil
	}
	why, known := m.past.why(grave{handle: ref.Handle})
	return nil, &EndedError{Why: why, Restarted: !known && !m.past.forgot}
}

// missing says what is not there; nil for a connection that has no session yet.
func (m *Manager) missing(ref Ref, p place) error {
	if p.connection != "" {
		return nil
	}
	if why, known := m.past.why(grave{place: p}); known && p.name != "" {
		return &EndedError{Why: why}
	}
	return &NoSessionError{Name: p.name, Own: m.own(ref.owner(), nil)}
}

// begin makes a session, whose room may still have to come free.
func (m *Manager) begin(ref Ref, p place) (*session, error) {
	o, most := ref.owner(), min(m.opts.MaxEach, m.opts.MaxSessions)
	count := 0
	for _, s := range m.sessions {
		if s.owner == o {
			count++
		}
	}
	// Those that wait for room are bounded too.
	if count >= most || len(m.sessions) >= 2*m.opts.MaxSessions {
		return nil, &TooManyError{Limit: most, Each: count >= most && most < m.opts.MaxSessions, Own: m.own(o, nil)}
	}
	s := newSession(m, o, p, m.minter.mint(ref.Principal))
	if p != (place{}) {
		s.pendingLoss = m.past.take(grave{place: p})
		m.places[p] = s
	}
	m.sessions[s.handle] = s
	m.watch.SessionBegan()
	m.admit(s)
	return s, nil
}

// own lists the sessions of one owner but for one, those idle for longest
// first. A caller without a name or a connection has none that are only its.
func (m *Manager) own(o owner, but *session) []Summary {
	var list []Summary
	for _, s := range m.sessions {
		if s.owner == o && o != (owner{}) && s != but {
			list = append(list, s.summary())
		}
	}
	slices.SortFunc(list, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(b.IdleSeconds, a.IdleSeconds), cmp.Compare(a.Session, b.Session))
	})
	return list[:min(len(list), maxListed)]
}

// maxListed bounds how many of its sessions a caller is told.
const maxListed = 64

func (s *session) summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Summary{
		Session: s.handle, Name: s.place.name, AgeSeconds: time.Since(s.made).Seconds(),
		IdleSeconds: s.idleFor().Seconds(), IsRunning: s.run.running(),
	}
}
