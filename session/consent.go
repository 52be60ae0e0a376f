package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/biocypher/biocage-mcp/sandbox"
)

const (
	maxDeclined    = 20  // paths, after which nothing more is asked in a session
	maxUndecided   = 5   // questions without an answer, after which nothing more is asked
	maxGrants      = 100 // paths that were allowed for a session
	maxClientRoots = 32
)

// An OutsideError says that a host path lies outside every root, and that it
// could be exposed read-only if the person agreed.
type OutsideError struct {
	Path string // where it really is
	Dir  bool
	Size int64 // of a file
}

// Error implements error.
func (e *OutsideError) Error() string {
	return fmt.Sprintf("%q is outside the folders that may be exposed (expose.roots), and the person at the client has to allow it.", cut(e.Path, 300))
}

// An Allowance is the person's word on the path of an OutsideError.
type Allowance struct {
	Path    string // as it was shown
	Session bool   // it, and what is beneath it, may be exposed again in this session
}

// openFor opens what a request asks for: beneath a configured root, beneath
// one that the client announced, or where the person has agreed. allowed is the
// real path in that last case; root is the announced root, if it was one.
func (m *Manager) openFor(ref Ref, req ExposeRequest) (host *hostFile, root, allowed string, err error) {
	name := filepath.Clean(req.HostPath)
	if inside, _ := rootOf(m.opts.Roots, name); inside != nil || !filepath.IsAbs(name) || strings.ContainsRune(name, 0) {
		host, err = m.openRoots(m.opts.Roots, req.HostPath, req.Mode)
		return host, "", "", err
	}
	for _, announced := range req.Roots[:min(len(req.Roots), maxClientRoots)] {
		rel, err := filepath.Rel(announced, name)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		real, err := m.CheckClientRoot(announced)
		if err != nil {
			return nil, "", "", err
		}
		host, err = m.openRoots([]HostRoot{{Path: real}}, filepath.Join(real, rel), req.Mode)
		return host, real, "", err
	}
	if !m.opts.Ask || req.Mode != sandbox.ReadOnly {
		host, err = m.openRoots(m.opts.Roots, req.HostPath, req.Mode)
		if argument, ok := errors.AsType[*ArgumentError](err); ok {
			argument.Outside = true
		}
		return host, "", "", err
	}
	host, err = m.openOutside(ref, name, req.Allowed)
	if err != nil {
		return nil, "", "", err
	}
	return host, "", host.path, nil
}

// CheckClientRoot gives where a folder that a client announced really is, or
// says why nothing beneath it may be exposed.
func (m *Manager) CheckClientRoot(announced string) (string, error) {
	real, err := filepath.EvalSymlinks(announced)
	if err != nil || !filepath.IsAbs(announced) {
		return "", hostError(announced, errors.Join(err, os.ErrNotExist))
	}
	if err := m.checkPlace(real); err != nil {
		return "", err
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", hostError(announced, os.ErrNotExist)
	}
	return real, nil
}

// checkPlace refuses places of which nobody may give a whole away, however
// they ask: the whole host, the home directory or what holds it, the system's
// inside, this server's own files, and names of secrets.
func (m *Manager) checkPlace(real string) error {
	refuse := func(why string) error {
		return &ArgumentError{Argument: "host_path", Message: fmt.Sprintf("%q is refused: it %s; name a folder or file that holds only what is needed.", cut(real, 300), why)}
	}
	for part := range strings.SplitSeq(real, string(filepath.Separator)) {
		if secretName(part) {
			return secretError(real, part, sandbox.ReadOnly)
		}
	}
	switch {
	case filepath.Dir(real) == real:
		return refuse("is the whole host")
	case m.opts.Home != "" && holds(real, m.opts.Home):
		return refuse("is the home directory or holds it")
	}
	for _, place := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if holds(place, real) {
			return refuse("belongs to the system's inside")
		}
	}
	for _, place := range m.opts.Private {
		if place != "" && (holds(place, real) || holds(real, place)) {
			return refuse("holds files of this server")
		}
	}
	return nil
}

// holds tells whether inner is outer or lies beneath it.
func holds(outer, inner string) bool {
	rel, err := filepath.Rel(outer, inner)
	return err == nil && filepath.IsLocal(rel)
}

// openOutside opens a path outside the roots, if the person has agreed; else
// the error says whether they can be asked. What is opened is what was shown.
func (m *Manager) openOutside(ref Ref, name string, allowed *Allowance) (*hostFile, error) {
	if err := m.checkPlace(name); err != nil { // before the host is looked at
		return nil, err
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, hostError(name, err)
	}
	if err := m.checkPlace(real); err != nil {
		return nil, err
	}
	h, err := openBeneath(filepath.Dir(real), filepath.Base(real))
	if err != nil {
		return nil, hostError(name, err)
	}
	if h, err = m.withoutOwn(h, sandbox.ReadOnly); err != nil {
		return nil, err
	}
	h.whole = true
	if h.path != real {
		return nil, errors.Join(hostError(name, errSwapped), h.file.Close())
	}
	if err := h.check(filepath.Dir(real), sandbox.ReadOnly); err != nil {
		return nil, errors.Join(err, h.file.Close())
	}
	if err := m.agreed(ref, h, allowed); err != nil {
		return nil, errors.Join(err, h.file.Close())
	}
	return h, nil
}

// agreed tells whether the person has allowed an open file or folder.
func (m *Manager) agreed(ref Ref, h *hostFile, allowed *Allowance) error {
	if allowed != nil && allowed.Path == h.path {
		return nil
	}
	st, err := h.file.Stat()
	if err != nil {
		return hostError(h.path, err)
	}
	question := &OutsideError{Path: h.path, Dir: h.dir, Size: st.Size()}
	s, err := m.look(ref)
	if err != nil {
		return question // there is no session yet that could remember anything
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case slices.ContainsFunc(s.grants, func(grant string) bool { return holds(grant, h.path) }):
		return nil
	case slices.Contains(s.declined, h.path):
		return declinedError(h.path)
	case len(s.declined) >= maxDeclined:
		return &ArgumentError{Argument: "host_path", Outside: true, Message: "The person has declined so many paths that they are not asked again in this session; they can add folders to expose.roots."}
	case s.undecided >= maxUndecided:
		return &ArgumentError{Argument: "host_path", Outside: true, Message: "So many questions to the person had no answer that they are not asked again in this session; they can add folders to expose.roots."}
	}
	return question
}

func declinedError(name string) error {
	return &ArgumentError{Argument: "host_path", Message: fmt.Sprintf("The person declined to expose %q; go on without it, or ask them in the conversation what to use.", cut(name, 300))}
}

// Decline remembers that the person does not want a path exposed, so that they
// are not asked again in this session, and gives the refusal. A connection's
// session begins with it; a caller without one can only be told.
func (m *Manager) Decline(ctx context.Context, ref Ref, name string) error {
	s, err := m.enter(ctx, ref, looks)
	if s == nil || err != nil {
		return declinedError(name)
	}
	defer s.leave(ctx, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.declined) < maxDeclined && !slices.Contains(s.declined, name) {
		s.declined = append(s.declined, name)
	}
	return declinedError(name)
}

// Undecided counts a question that the person left without an answer: whoever
// closes it again and again is not asked for ever.
func (m *Manager) Undecided(ctx context.Context, ref Ref) {
	s, err := m.enter(ctx, ref, looks)
	if s == nil || err != nil {
		return // a caller without a session asks as often as it calls
	}
	defer s.leave(ctx, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undecided++
}

// grant remembers a path that the person allowed for the session.
func (s *session) grant(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grants) < maxGrants && !slices.Contains(s.grants, name) {
		s.grants = append(s.grants, name)
	}
}
