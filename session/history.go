package session

import (
	"slices"
	"strings"
)

const (
	maxHistory = 64 << 10 // bytes of code that a session remembers
	maxFailure = 16 << 10 // bytes of each text of the latest failure
)

// History is what a session remembers of its runs since its latest reset.
type History struct {
	Session string
	Cells   []string // the code of runs that succeeded, in order
	Dropped int      // cells before them, or too long to be kept
	Failed  *FailedRun
}

// A FailedRun is the latest run that failed.
type FailedRun struct {
	Code  string
	Error RunError
}

// A history is bounded in bytes: the oldest cells go first.
type history struct {
	cells   []string
	size    int
	dropped int
	failed  *FailedRun
}

// add takes a run that has ended.
func (h *history) add(code string, res RunResult) {
	if !res.Success {
		if res.Error != nil {
			e := *res.Error
			e.Message, e.Traceback = cut(e.Message, maxFailure), cut(e.Traceback, maxFailure)
			h.failed = &FailedRun{Code: strings.Clone(cut(code, maxFailure)), Error: e}
		}
		return
	}
	if code = strings.TrimSpace(code); code == "" {
		return
	}
	if len(code) > maxHistory {
		h.dropped++
		return
	}
	h.cells = append(h.cells, strings.Clone(code))
	h.size += len(code)
	for h.size > maxHistory {
		h.size -= len(h.cells[0])
		h.cells = slices.Delete(h.cells, 0, 1)
		h.dropped++
	}
}

// record keeps a run that has ended.
func (s *session) record(code string, res RunResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.add(code, res)
}

// forget begins the history anew.
func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = history{}
}

// History tells what a session remembers of its runs; it starts nothing.
func (m *Manager) History(ref Ref) (History, error) {
	s, err := m.look(ref)
	if err != nil {
		return History{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.history
	return History{Session: s.handle, Cells: slices.Clone(h.cells), Dropped: h.dropped, Failed: h.failed}, nil
}
