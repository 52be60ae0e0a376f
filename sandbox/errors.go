package sandbox

import (
	"errors"
	"strings"
)

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

// A FaultError is a failure of a known kind. Its text is for people: what is wrong,
// "; ", and the one thing to do about it.
type FaultError struct {
	Class error // one of those above
	Text  string
	Err   error // the engine's own, for the log; nil when the text says it all
}

// Error implements error.
func (f *FaultError) Error() string {
	if f.Err == nil {
		return f.Text
	}
	return f.Text + ": " + f.Err.Error()
}

// Unwrap gives the class and the engine's own error.
func (f *FaultError) Unwrap() []error {
	if f.Err == nil {
		return []error{f.Class}
	}
	return []error{f.Class, f.Err}
}

// Problem is the part of the text that says what is wrong, Remedy the other.
func (f *FaultError) Problem() string {
	problem, _, _ := strings.Cut(f.Text, "; ")
	return problem
}

// Remedy is what to do.
func (f *FaultError) Remedy() string {
	_, remedy, _ := strings.Cut(f.Text, "; ")
	return remedy
}
