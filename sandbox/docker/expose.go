package docker

import (
	"context"
	"fmt"
	"os"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/hostmount"
)

// Expose implements sandbox.Exposer.
func (s *Sandbox) Expose(ctx context.Context, source *os.File, target string, mode sandbox.Mode) error {
	e := s.engine
	d, err := e.known(ctx)
	if err != nil {
		return err
	}
	if err := e.exposeFault(d); err != nil {
		return fmt.Errorf("docker: expose %s: %w: %w", target, sandbox.ErrUnsupported, err)
	}
	select {
	case <-s.done:
		return fmt.Errorf("docker: expose %s: %w", target, sandbox.ErrClosed)
	default:
	}
	result, err := hostmount.Attach(ctx, hostmount.Request{
		PID: s.pid, Root: "/", Source: source, Target: target, Mode: mode, UID: s.uid, GID: s.uid,
	})
	if err != nil {
		return fmt.Errorf("docker: expose %s: %w", target, err)
	}
	if !result.Mapped {
		e.opts.Log.WarnContext(ctx, "file system of an exposure cannot map owners, so access follows the files' modes", "target", target, "reason", result.Reason)
	}
	return nil
}
