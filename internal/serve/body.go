package serve

import (
	"bytes"
	"errors"
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
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := buffer.ReadFrom(io.LimitReader(r.Body, f.limits.Body+1)); err != nil {
		f.bodies.give(size)
		f.refuseBody(w, r, err)
		return nil, 0, false
	}
	if int64(buffer.Len()) > f.limits.Body {
		f.bodies.give(size)
		f.refuseLong(w, r, buffer.Bytes())
		return nil, 0, false
	}
	// From here on the connection is read only to notice its end, and written
	// to at any time.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	limitWrite(w, 0)
	return bytes.TrimSpace(buffer.Bytes()), size, true
}

// refuseLong refuses a message that is too long. It reads the rest, within a
// bound, and keeps nothing: a client that still sends does not hear, and the
// message's id, which may be at its end, lets it know what was refused.
func (f *front) refuseLong(w http.ResponseWriter, r *http.Request, start []byte) {
	scanner := &idScanner{}
	scanner.scan(start)
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
