package session

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	// unclaimed is how long a session lives whose handle nobody has passed yet.
	unclaimed = 10 * time.Minute
	// closedByClient is the end that a client asked for.
	closedByClient = "session_reset closed it"
)

// admit gets the session its room, at once or in turn with the other owners.
// m.mu is held.
func (m *Manager) admit(s *session) {
	if m.rooms.take(s.owner) {
		s.room = true
		close(s.admitted)
		return
	}
	m.spawn(func() {
		ctx, cancel := context.WithTimeout(m.life, m.opts.QueueWait)
		defer cancel()
		m.settle(s, m.rooms.wait(ctx, s.owner))
	})
}

// settle tells those who wait for the session's room how it went.
func (m *Manager) settle(s *session, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer close(s.admitted)
	s.mu.Lock()
	ended := s.ended
	s.room = err == nil && !ended
	s.mu.Unlock()
	switch {
	case ended && err == nil:
		m.rooms.leave(s.owner)
		fallthrough
	case ended:
		s.refused = s.endedError()
	case m.life.Err() != nil:
		s.refused = ErrClosed
	case err != nil:
		s.refused = &TooManyError{Limit: m.opts.MaxSessions, Own: m.own(s.owner, s)}
		m.bury(s, EndFailed, "")
	}
}

// bury takes the session out of every list, so that no call finds it any
// more; the first time it is true, and its caller then has to finish it. m.mu
// is held, so no call can arrive in between.
func (m *Manager) bury(s *session, reason, why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.ended, s.why = true, why
	m.watch.SessionEnded(reason)
	delete(m.sessions, s.handle)
	if m.places[s.place] == s {
		delete(m.places, s.place)
	}
	if why == "" {
		return true // nobody knows it
	}
	m.past.keep(grave{handle: s.handle}, why)
	if s.place != (place{}) && why != closedByClient {
		m.past.keep(grave{place: s.place}, why)
	}
	return true
}

// end closes the session for good and returns when nothing of it is left.
func (m *Manager) end(ctx context.Context, s *session, reason, why string) error {
	m.mu.Lock()
	first := m.bury(s, reason, why)
	m.mu.Unlock()
	if !first {
		return nil
	}
	return s.finish(ctx)
}

// finishLater finishes a session that has been buried.
func (m *Manager) finishLater(s *session) {
	m.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.life), closeTimeout)
		defer cancel()
		if err := s.finish(ctx); err != nil {
			m.log.WarnContext(ctx, "session not fully closed", slog.String("session", s.label), slog.Any("error", err))
		}
	})
}

// finish closes what a buried session holds, and gives its room back.
func (s *session) finish(ctx context.Context) error {
	s.mu.Lock()
	b, r, room := s.boot, s.run, s.room
	s.boot, s.room = nil, false
	s.mu.Unlock()
	if room {
		defer s.m.rooms.leave(s.owner)
	}
	if r.running() {
		r.halt(KindCancelled, s.endedError().Error())
	}
	if b == nil {
		return nil
	}
	b.cancel()
	select {
	case <-b.done:
	case <-ctx.Done():
		return fmt.Errorf("end session: %w", context.Cause(ctx))
	}
	if b.err != nil {
		return nil // told to whoever asked for it; nothing is left of it
	}
	if err := b.kernel.close(ctx); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

// Disconnect says that a connection has gone. Its own session lives on for the
// grace, in which its client may come back with the handle, or over the same
// connection.
func (m *Manager) Disconnect(connection string) {
	if connection == "" {
		return
	}
	m.mu.Lock()
	for _, s := range m.sessions {
		if s.place.connection == connection || s.owner.connection == connection {
			s.mu.Lock()
			s.gone = time.Now()
			s.mu.Unlock()
		}
	}
	m.mu.Unlock()
	m.expireNow()
}

// expire ends sessions that nobody needs any more.
func (m *Manager) expire() {
	every := m.opts.IdleTimeout
	if m.opts.Grace > 0 {
		every = min(every, m.opts.Grace)
	}
	tick := time.NewTicker(max(min(every, unclaimed)/20, time.Second))
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
	if !m.closed {
		for _, s := range m.sessions {
			if reason, why := s.overdue(); why != "" && m.bury(s, reason, why) {
				m.finishLater(s)
			}
		}
	}
	m.mu.Unlock()
	m.pool.drainWhenIdle()
}

// overdue tells why the session should end now, in a word and a clause, or "".
func (s *session) overdue() (reason, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls > 0 || s.run.running() {
		return "", ""
	}
	idle, short := s.idleFor(), min(unclaimed, s.m.opts.IdleTimeout)
	switch {
	case !s.gone.IsZero() && min(idle, time.Since(s.gone)) >= s.m.opts.Grace:
		return EndGone, fmt.Sprintf("its client had been gone for %s (session.grace)", s.m.opts.Grace)
	case idle >= s.m.opts.IdleTimeout:
		return EndIdle, fmt.Sprintf("it was idle for %s (session.idle_timeout)", s.m.opts.IdleTimeout)
	case s.place == (place{}) && s.visits <= 1 && idle >= short:
		return EndUnclaimed, fmt.Sprintf("nobody came back to it within %s", short)
	}
	return "", ""
}
