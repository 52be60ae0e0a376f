//go:build !linux || !(amd64 || arm64)

package gvisor

import (
	"context"
	"fmt"
	"runtime"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Engine cannot be made on this platform.
type Engine struct{ unsupported }

// New reports that gVisor does not exist for this platform.
func New(Options) (*Engine, error) { return nil, errPlatform() }

// Dispatch does nothing on this platform: the program is never gVisor.
func Dispatch() {}

func errPlatform() error {
	return fmt.Errorf("gVisor runs on Linux (amd64, arm64) only, not on %s/%s; use the docker engine: %w",
		runtime.GOOS, runtime.GOARCH, sandbox.ErrUnsupported)
}

// unsupported gives Engine the methods of sandbox.Engine, so that callers
// compile everywhere; none is ever reached, because New fails.
type unsupported struct{}

// Name implements sandbox.Engine.
func (unsupported) Name() string { return "gvisor" }

// Capabilities implements sandbox.Engine.
func (unsupported) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{} }

// Check implements sandbox.Engine.
func (unsupported) Check(context.Context) error { return errPlatform() }

// Create implements sandbox.Engine.
func (unsupported) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, errPlatform()
}

// Reap implements sandbox.Engine.
func (unsupported) Reap(context.Context) (int, error) { return 0, nil }

// Close implements sandbox.Engine.
func (unsupported) Close() error { return nil }
