package serve

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// A budget bounds the bytes of all messages that are being read or handled.
type budget struct {
	mu   sync.Mutex
	left int64 // guarded by mu
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// readBody reads a message, or answers why it does not. The caller gives the
// size back to the budget when it has done with it.
func (f *front) readBody(w http.ResponseWriter, r *http.Request) (body []byte, size int64, ok bool) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		f.refuse(w, r, http.StatusUnsupportedMediaType, nil, fault{mcp.INVALID_REQUEST, "The body must not be compressed; send it without Content-Encoding."})
		return nil, 0, false
	}
	long := fault{mcp.INVALID_REQUEST, tooLong(int(f.limits.Body))}
	if size = r.ContentLength; size > f.limits.Body {
		w.Header().Set("Connection", "close") // instead of reading what nobody wants
		f.refuse(w, r, http.StatusRequestEntityTooLarge, nil, long)
		return nil, 0, false
	}
	if size < 0 {
		size = f.limits.Body
	}
	if !f.bodies.take(size) {
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "1")
		f.refuse(w, r, http.StatusServiceUnavailable, nil, fault{mcp.INTERNAL_ERROR, "Too many large messages are being handled; try again in a moment."})
		return nil, 0, false
	}
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, f.limits.Body)); err != nil {
		f.bodies.give(size)
		f.refuseBody(w, r, err, long)
		return nil, 0, false
	}
	// From here on the connection is read only to notice its end, and written
	// to at any time.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	limitWrite(w, 0)
	return bytes.TrimSpace(buffer.Bytes()), size, true
}

// refuseBody tells why a body could not be read.
func (f *front) refuseBody(w http.ResponseWriter, r *http.Request, err error, long fault) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		f.refuse(w, r, http.StatusRequestEntityTooLarge, nil, long)
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.refuse(w, r, http.StatusRequestTimeout, nil, fault{mcp.INVALID_REQUEST, "The message did not arrive in time; send it anew."})
	default:
		f.refuse(w, r, http.StatusBadRequest, nil, fault{mcp.PARSE_ERROR, "The message did not arrive as a whole; send it anew."})
	}
}
