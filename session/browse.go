package session

import (
	"context"
	"slices"
	"strings"
)

// Handles lists the caller's sessions that have a live sandbox, its
// connection's own first. It starts nothing.
func (m *Manager) Handles(ref Ref) []string {
	ref.Handle = ""
	m.mu.Lock()
	var own []*session
	if first := m.places[ref.place()]; first != nil && ref.place() != (place{}) {
		own = append(own, first)
	}
	for _, summary := range m.own(ref.owner(), nil) {
		if s := m.sessions[summary.Session]; !slices.Contains(own, s) {
			own = append(own, s)
		}
	}
	m.mu.Unlock()
	slices.SortStableFunc(own[min(len(own), 1):], func(a, b *session) int { return strings.Compare(a.handle, b.handle) })
	var handles []string
	for _, s := range own {
		if s.live() != nil {
			handles = append(handles, s.handle)
		}
	}
	return handles
}

// live gives the session's kernel if it is there and alive, else nil.
func (s *session) live() *kernel {
	s.mu.Lock()
	b := s.boot
	s.mu.Unlock()
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
	default:
		return nil
	}
	if b.err != nil {
		return nil
	}
	select {
	case <-b.kernel.gone:
		return nil
	default:
		return b.kernel
	}
}

// PeekFile is ReadFile for who only looks: where no session or sandbox is,
// nothing is made, and no file is there.
func (m *Manager) PeekFile(ctx context.Context, ref Ref, req ReadRequest) (ReadResult, error) {
	if err := checkRead(req); err != nil {
		return ReadResult{}, err
	}
	s, err := m.enter(ctx, ref, needs)
	if err != nil {
		return ReadResult{}, err
	}
	if s == nil {
		return ReadResult{}, ErrUnknown
	}
	defer s.leave(ctx, nil)
	k := s.live()
	if k == nil {
		return ReadResult{}, ErrUnknown
	}
	return s.readFile(ctx, k, req)
}

// PeekFiles is ListFiles for who only looks. It is no use of the session,
// because hosts look again and again.
func (m *Manager) PeekFiles(ctx context.Context, ref Ref, req ListRequest) (ListResult, error) {
	if err := checkPath(listed(req)); err != nil {
		return ListResult{}, err
	}
	s, err := m.look(ref)
	if err != nil {
		return ListResult{}, err
	}
	k := s.live()
	if k == nil {
		return ListResult{}, ErrUnknown
	}
	return s.listFiles(ctx, k, req)
}

// look gives a session that is there.
func (m *Manager) look(ref Ref) (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, _, err := m.find(ref, needs)
	if s == nil && err == nil {
		err = ErrUnknown
	}
	return s, err
}
