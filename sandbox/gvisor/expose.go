//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/hostmount"
)

var _ sandbox.Exposer = (*box)(nil)

// goferRoot is where the sandbox's root lies in its file server's namespace.
const goferRoot = "/root"

// Expose implements sandbox.Exposer. The tree is attached in the mount
// namespace of the sandbox's file server. The sentry reaches files by
// descriptors that the file server gave it, and so walks into the new mount,
// although its own namespace is empty.
func (b *box) Expose(ctx context.Context, source *os.File, target string, mode sandbox.Mode) error {
	if !b.engine.live {
		return fmt.Errorf("attach host files to a running sandbox: %w", sandbox.ErrUnsupported)
	}
	select {
	case <-b.done:
		return fmt.Errorf("attach host files: %w", sandbox.ErrClosed)
	default:
	}
	return b.engine.attach(ctx, b.gofer, b.bundle.id, source, target, mode)
}

// attachAll attaches what a new sandbox has from its start, after its file
// server has made its namespace and before its first process runs.
func (s *starter) attachAll(ctx context.Context) error {
	for _, m := range s.bundle.attached() {
		fd, err := unix.Open(m.Host, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", m.Host, err)
		}
		source := os.NewFile(uintptr(fd), m.Host)
		err = s.engine.attach(ctx, s.cont.GoferPid.Load(), s.bundle.id, source, m.Sandbox, m.Mode)
		if err := errors.Join(err, source.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) attach(ctx context.Context, gofer int, id identity, source *os.File, target string, mode sandbox.Mode) error {
	result, err := hostmount.Attach(ctx, hostmount.Request{
		PID: gofer, Root: goferRoot, Source: source, Target: target, Mode: mode,
		UID: int(id.hostUID) + 1, GID: int(id.hostGID) + 1, // the worker's
	})
	if err != nil {
		return fmt.Errorf("attach %s: %w", target, err)
	}
	if !result.Mapped {
		e.log.WarnContext(ctx, "file owners are not mapped in an exposure", "target", target, "reason", result.Reason)
	}
	return nil
}
