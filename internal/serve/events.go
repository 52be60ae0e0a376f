package serve

import (
	"fmt"
	"net/http"
	"time"
)

// writeTimeout is how long a client may take to read what was written to it.
const writeTimeout = 20 * time.Second

// events writes a stream of server-sent events. It is used by one goroutine.
type events struct {
	w      http.ResponseWriter
	within time.Duration // the client must read what is written
	open   bool
}

// start sends the head of the stream, once.
func (e *events) start() error {
	if e.open {
		return nil
	}
	e.open = true
	head := e.w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-cache, no-transform")
	head.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
	return e.flush("")
}

// message sends a JSON-RPC message, which holds no line ends.
func (e *events) message(line []byte) error {
	return e.event("message", string(line))
}

func (e *events) event(name, data string) error {
	if err := e.start(); err != nil {
		return err
	}
	return e.flush("event: " + name + "\ndata: " + data + "\n\n")
}

// beat sends a comment, so that nobody on the way takes the stream for dead.
func (e *events) beat() error {
	if err := e.start(); err != nil {
		return err
	}
	return e.flush(": keep-alive\n\n")
}

// flush writes a text to the client, who must read it within a bound.
func (e *events) flush(text string) error {
	control := http.NewResponseController(e.w)
	limitWrite(e.w, e.within)
	if text != "" {
		if _, err := e.w.Write([]byte(text)); err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	if err := control.Flush(); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	limitWrite(e.w, 0)
	return nil
}

// limitWrite bounds the writes that follow; 0 is without bound. What has no
// connection to bound, as in tests, needs none.
func limitWrite(w http.ResponseWriter, within time.Duration) {
	var deadline time.Time
	if within > 0 {
		deadline = time.Now().Add(within)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(deadline)
}
