package serve

import (
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// A share bounds the requests that one principal has in hand. The gate closes
// no connection with a request in hand, so without it one client could hold
// them all, with streams that he only listens on or with calls that wait.
type share struct {
	max int

	mu   sync.Mutex
	held map[string]int // guarded by mu; by principal
}

// newShare leaves a quarter of the connections to others.
func newShare(connections int) *share {
	return &share{max: connections - connections/4, held: map[string]int{}}
}

func (s *share) take(principal string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[principal] >= s.max {
		return false
	}
	s.held[principal]++
	return true
}

func (s *share) give(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[principal]--; s.held[principal] == 0 {
		delete(s.held, principal)
	}
}

// fair refuses the requests of a principal that has too many in hand.
func (f *front) fair(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal := f.whose(r.Context())
		if !f.share.take(principal) {
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "5")
			f.refuse(w, r, http.StatusTooManyRequests, nil, fault{mcp.INVALID_REQUEST, "Too many requests and streams of this client are open; close some, or wait for their end."})
			return
		}
		defer f.share.give(principal)
		next.ServeHTTP(w, r)
	})
}
