package docker

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/docker/docker/pkg/stdcopy"
)

// A stream is the agent's channel as the caller sees it. Its Close also ends
// the lease: the container's standard input closes, and PID 1 with it.
type stream struct {
	r      io.Reader
	w      io.Writer
	closed chan struct{}

	mu   sync.Mutex
	ends []io.Closer // guarded by mu; nil once closed
	err  error       // guarded by mu; of the first Close
}

func newStream(r io.Reader, w io.Writer, ends ...io.Closer) *stream {
	return &stream{r: r, w: w, ends: ends, closed: make(chan struct{})}
}

// open makes conn the channel, before anyone reads or writes.
func (s *stream) open(conn io.ReadWriteCloser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r, s.w = conn, conn
	if s.ends == nil {
		_ = conn.Close() // the container ended meanwhile
		return
	}
	s.ends = append(s.ends, conn)
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) { return s.r.Read(p) }

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) { return s.w.Write(p) }

// Close is idempotent.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		return s.err
	}
	close(s.closed)
	for _, end := range s.ends {
		if err := end.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.err = errors.Join(s.err, err)
		}
	}
	s.ends = nil
	return s.err
}

// A tail keeps the end of what is written to it: the supervisor's own
// complaints on standard error, for a reason when it ends.
type tail struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

const tailBytes = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailBytes):]...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// demultiplex splits the daemon's attached stream until it ends.
func demultiplex(attached io.Reader, stdout *io.PipeWriter, stderr io.Writer) {
	out := io.Discard
	if stdout != nil {
		out = stdout
	}
	_, err := stdcopy.StdCopy(out, stderr, attached)
	if stdout == nil {
		return
	}
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	_ = stdout.CloseWithError(err) // nil is io.EOF to the reader; never fails
}
