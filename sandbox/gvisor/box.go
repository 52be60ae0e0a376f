//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/container"
	gvisorsandbox "gvisor.dev/gvisor/runsc/sandbox"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// closeLimit bounds the end of sandboxes where no context does.
const closeLimit = 20 * time.Second

// A box is one running sandbox. Its watcher is the only one that touches the
// container once it runs, because gVisor's type is not safe for several
// goroutines; everybody else kills by pidfd and reads files.
type box struct {
	id     string
	engine *Engine
	bundle *bundle
	cont   *container.Container
	kernel *gvisorsandbox.Sandbox
	pidfd  *os.File // of the sentry
	gofer  int      // pid of the file server
	stream io.ReadWriteCloser
	group  *cgroup // nil: no control groups
	uplink *uplink // nil: no network

	closing  atomic.Bool   // Close was called before the end
	overdose atomic.Bool   // the watcher ended it for its memory
	cut      atomic.Bool   // the watcher ended it because its network had ended
	usage    atomic.Int64  // bytes, as last seen by the watcher; without groups
	done     chan struct{} // closed when exit is set
	gone     chan struct{} // closed when nothing is left

	exit    sandbox.Exit // set before done is closed
	goneErr error        // set before gone is closed
}

var _ sandbox.Sandbox = (*box)(nil)

// newBox takes over what a starter made. The descriptor names the sentry even
// after its pid is used again.
func newBox(s *starter) (*box, error) {
	pid := s.cont.Sandbox.Getpid()
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("hold the sandbox's process: %w", err)
	}
	return &box{
		id: s.id, engine: s.engine, bundle: s.bundle, cont: s.cont, kernel: s.cont.Sandbox, gofer: s.cont.GoferPid.Load(),
		pidfd: os.NewFile(uintptr(fd), "pidfd"), stream: s.host, group: s.group, uplink: s.uplink,
		done: make(chan struct{}), gone: make(chan struct{}),
	}, nil
}

// ID implements sandbox.Sandbox.
func (b *box) ID() string { return b.id }

// Stream implements sandbox.Sandbox.
func (b *box) Stream() io.ReadWriteCloser { return b.stream }

// Done implements sandbox.Sandbox.
func (b *box) Done() <-chan struct{} { return b.done }

// Exit implements sandbox.Sandbox.
func (b *box) Exit() sandbox.Exit {
	<-b.done
	return b.exit
}

// Close implements sandbox.Sandbox.
func (b *box) Close(ctx context.Context) error {
	b.closing.Store(true)
	if err := b.kill(); err != nil {
		return fmt.Errorf("end the sandbox: %w", err)
	}
	select {
	case <-b.gone:
		return b.goneErr
	case <-ctx.Done():
		return fmt.Errorf("end the sandbox: it was killed, but is not gone yet: %w", context.Cause(ctx))
	}
}

// kill ends the sentry, and with it every process of the sandbox.
func (b *box) kill() error {
	raw, err := b.pidfd.SyscallConn()
	if err != nil {
		return b.unlessEnded(err)
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }); err != nil {
		return b.unlessEnded(err)
	}
	if errors.Is(sent, unix.ESRCH) {
		return nil
	}
	return sent
}

// unlessEnded: the watcher closes the descriptor when the sentry has ended.
func (b *box) unlessEnded(err error) error {
	select {
	case <-b.done:
		return nil
	default:
		return err
	}
}
