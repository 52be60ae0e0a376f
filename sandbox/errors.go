package sandbox

import "errors"

// The classes of an engine's failures. An engine wraps its native error and
// one of these, so that callers decide by class and people read the cause.
var (
	// ErrUnavailable: the engine cannot work here, or does not answer now.
	ErrUnavailable = errors.New("the engine is not available")
	// ErrRootMissing: the environment (image or directory) is not there.
	ErrRootMissing = errors.New("the environment is not there")
	// ErrExhausted: the host lacks disk, memory or another resource.
	ErrExhausted = errors.New("the host has run out of a resource")
	// ErrClosed: the sandbox or the engine was closed.
	ErrClosed = errors.New("closed")
	// ErrUnsupported: this engine cannot do that here.
	ErrUnsupported = errors.New("not supported by this engine here")
)

// A SpecError names a field of a Spec and what is wrong with it.
type SpecError struct {
	Field  string
	Reason string
}

// Error implements error.
func (e *SpecError) Error() string { return "spec: " + e.Field + " " + e.Reason }
