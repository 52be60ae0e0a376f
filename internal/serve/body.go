package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxSkipped bounds what is read of a message that is too long.
const maxSkipped = 64 << 20

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
	if size = r.ContentLength; size > f.limits.Body {
		f.refuseLong(w, r, nil)
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
	parts, read, err := readParts(r.Body, r.ContentLength, f.limits.Body)
	if err != nil {
		f.bodies.give(size)
		f.refuseBody(w, r, err)
		return nil, 0, false
	}
	if read > f.limits.Body {
		f.bodies.give(size)
		f.refuseLong(w, r, parts)
		return nil, 0, false
	}
	// From here on the connection is read only to notice its end, and written
	// to at any time.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	limitWrite(w, 0)
	return bytes.TrimSpace(bytes.Join(parts, nil)), size, true
}

// refuseLong refuses a message that is too long. It reads the rest, within a
// bound, and keeps nothing: a client that still sends does not hear, and the
// message's id, which may be at its end, lets it know what was refused.
func (f *front) refuseLong(w http.ResponseWriter, r *http.Request, start [][]byte) {
	scanner := &idScanner{}
	for _, part := range start {
		scanner.scan(part)
	}
	var id []byte
	part := make([]byte, 32<<10)
	for left := int64(maxSkipped); r.ContentLength <= maxSkipped && left > 0; {
		n, err := r.Body.Read(part)
		scanner.scan(part[:n])
		left -= int64(n)
		if err != nil {
			id = scanner.id()
			break
		}
	}
	w.Header().Set("Connection", "close")
	f.refuse(w, r, http.StatusRequestEntityTooLarge, id, fault{mcp.INVALID_REQUEST, tooLong(int(f.limits.Body))})
}

// refuseBody tells why a body could not be read.
func (f *front) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		f.refuse(w, r, http.StatusRequestTimeout, nil, fault{mcp.INVALID_REQUEST, "The message did not arrive in time; send it anew."})
		return
	}
	f.refuse(w, r, http.StatusBadRequest, nil, fault{mcp.PARSE_ERROR, "The message did not arrive as a whole; send it anew."})
}

// Parts of a body whose length is not told beforehand.
const (
	firstPart = 4 << 10
	maxPart   = 1 << 20
)

// readParts reads a body, and at most one byte more than the limit. Where its
// length is not told it comes in parts: one buffer that grows would take three
// times what is read, also for a message that is refused in the end.
func readParts(body io.Reader, told, limit int64) (parts [][]byte, size int64, err error) {
	next := int64(firstPart)
	if told > 0 {
		next = told + 1 // all of it, and its end
	}
	for size <= limit {
		next = min(next, limit+1-size)
		var part bytes.Buffer
		part.Grow(int(next) + bytes.MinRead)
		n, err := part.ReadFrom(io.LimitReader(body, next))
		if err != nil {
			return nil, 0, fmt.Errorf("read message: %w", err)
		}
		parts = append(parts, part.Bytes())
		if size += n; n < next {
			break
		}
		next = min(2*next, maxPart)
	}
	return parts, size, nil
}
