package session

import (
	"errors"
	"fmt"
	"time"
)

// Failures that callers tell apart. Their texts are complete sentences for a
// model: what is wrong and what to do.
var (
	// ErrUnknown: the handle names no session of this scope.
	ErrUnknown = errors.New("no such session")
	// ErrTooMany: the maximum number of sessions is reached.
	ErrTooMany = errors.New("too many sessions")
	// ErrClosed: the manager is shutting down.
	ErrClosed = errors.New("the server is shutting down")
	// ErrNoRun: there is no run to wait for.
	ErrNoRun = errors.New("no such run")
)

// A BusyError says that another cell holds the session, or (RunID is "") that
// its sandbox takes long to start.
type BusyError struct {
	Session string // the handle
	RunID   string
	Since   time.Duration
}

// Error implements error.
func (e *BusyError) Error() string {
	if e.RunID == "" {
		return "The session's sandbox is still being started; call again."
	}
	return fmt.Sprintf("The session has been busy with run %s for %s.", e.RunID, e.Since.Round(100*time.Millisecond))
}

// An ArgumentError says that the request itself is at fault; nothing was
// changed. Message is one sentence that names the remedy.
type ArgumentError struct {
	Argument string
	Message  string
}

// Error implements error.
func (e *ArgumentError) Error() string { return e.Message }

// A SandboxError says that the sandbox could not be made or was lost. Message
// tells what happened to the state and what to do; Err is the cause for the log.
type SandboxError struct {
	Message string
	Lost    bool // state that existed before is gone
	Err     error
}

// Error implements error.
func (e *SandboxError) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *SandboxError) Unwrap() error { return e.Err }
