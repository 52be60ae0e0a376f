package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Sandbox is one container. One goroutine reads the attached stream, one
// waits for the container's end; both have ended when done is closed.
type Sandbox struct {
	engine *Engine
	id     string
	uid    int
	name   string
	pid    int     // of PID 1, seen from this machine; 0 when it is elsewhere
	groups *groups // nil when it is elsewhere

	attached types.HijackedResponse
	stderr   *tail
	stdout   *io.PipeReader // with the attached streams as channel, else nil
	stdin    *io.PipeWriter
	stream   *stream

	closing atomic.Bool
	turn    chan struct{} // capacity 1: who holds it removes the container
	removed bool          // guarded by turn

	done    chan struct{}
	exit    sandbox.Exit // written before done is closed
	readers sync.WaitGroup
}

var (
	_ sandbox.Sandbox = (*Sandbox)(nil)
	_ sandbox.Exposer = (*Sandbox)(nil)
)

func newSandbox(e *Engine, id, name string, uid int, attached types.HijackedResponse, stdio bool) *Sandbox {
	s := &Sandbox{
		engine: e, id: id, name: name, uid: uid, attached: attached, stderr: &tail{},
		turn: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if stdio {
		s.stdout, s.stdin = io.Pipe()
		s.stream = newStream(s.stdout, attached.Conn, attached.Conn, s.stdout)
	} else {
		s.stream = newStream(nil, nil, attached.Conn)
	}
	return s
}

// start begins to read and to wait.
func (s *Sandbox) start(exited <-chan container.WaitResponse, failed <-chan error, stop context.CancelFunc) {
	s.readers.Go(func() { demultiplex(s.attached.Reader, s.stdin, s.stderr) })
	go s.watch(exited, failed, stop)
}

// watch waits for the container's end. When the stream was closed and PID 1
// does not end by itself, the container is removed.
func (s *Sandbox) watch(exited <-chan container.WaitResponse, failed <-chan error, stop context.CancelFunc) {
	defer stop()
	var overdue <-chan time.Time
	closed := s.stream.closed
	for {
		select {
		case end := <-exited:
			s.finish(int(end.StatusCode), "")
			return
		case err := <-failed:
			s.finish(-1, "the Docker daemon stopped answering: "+err.Error())
			return
		case <-closed:
			closed = nil
			overdue = time.After(leaseGrace)
		case <-overdue:
			overdue = nil
			if err := s.engine.removeWithin(context.Background(), s.id); err != nil { //nolint:forbidigo // no call waits for it
				s.engine.opts.Log.Warn("docker container outlived its stream and was not removed", "id", s.id, "error", err)
			}
		}
	}
}

// finish records the end and lets go of everything.
func (s *Sandbox) finish(code int, reason string) {
	e := s.engine
	exit := sandbox.Exit{Code: code, Closed: s.closing.Load(), Reason: reason}
	if code >= 0 {
		const eventsLag = 500 * time.Millisecond
		exit.OOMKilled = !exit.Closed && code == 137 && e.events.oomsAtEnd(s.id, eventsLag) > 0
	}
	if err := s.stream.Close(); err != nil {
		e.opts.Log.Warn("docker stream was not closed cleanly", "id", s.id, "error", err)
	}
	s.readers.Wait()
	switch {
	case exit.Reason != "":
	case exit.Closed:
		exit.Reason = "closed"
	case exit.OOMKilled:
		exit.Reason = "killed by the memory limit"
	default:
		exit.Reason = fmt.Sprintf("the first process ended with code %d", code)
		if text := s.stderr.String(); text != "" {
			exit.Reason += fmt.Sprintf("; it said %q", text)
		}
	}
	e.events.forget(s.id)
	e.freeUID(s.uid)
	e.release(s.name)
	s.exit = exit
	close(s.done)
}

// ID implements sandbox.Sandbox.
func (s *Sandbox) ID() string { return s.id }

// Stream implements sandbox.Sandbox.
func (s *Sandbox) Stream() io.ReadWriteCloser { return s.stream }

// Done implements sandbox.Sandbox.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Exit implements sandbox.Sandbox.
func (s *Sandbox) Exit() sandbox.Exit { return s.exit }

// onEnd calls f when the sandbox ends, unless stop came first.
func (s *Sandbox) onEnd(f func()) (stop func()) {
	stopped := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() {
		select {
		case <-s.done:
			f()
		case <-stopped:
		}
	})
	return func() {
		close(stopped)
		waiter.Wait()
	}
}

// endedInstead says why the container ended, when that is the cause of err.
func (s *Sandbox) endedInstead(err error) error {
	select {
	case <-s.done:
		return fmt.Errorf("%w: %s: %w", errEnded, s.exit.Reason, err)
	case <-time.After(100 * time.Millisecond):
		return err
	}
}

// Close implements sandbox.Sandbox.
func (s *Sandbox) Close(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return fmt.Errorf("docker: close sandbox: %w", context.Cause(ctx))
	}
	if s.removed {
		return nil
	}
	s.closing.Store(true)
	err := s.stream.Close()
	if rmErr := s.engine.remove(ctx, s.id); rmErr != nil {
		return fmt.Errorf("docker: close sandbox: %w", errors.Join(err, rmErr))
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return fmt.Errorf("docker: close sandbox: %w", context.Cause(ctx))
	}
	s.removed = true
	return nil
}
