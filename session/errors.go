package session

import (
	"errors"
	"fmt"
	"time"
)

// Failures that callers tell apart. Their texts are complete sentences for a
// model: what is wrong and what to do.
var (
	// ErrUnknown: the handle names no session of this principal.
	ErrUnknown = errors.New("no such session")
	// ErrTooMany: the maximum number of sessions is reached; see TooManyError.
	ErrTooMany = errors.New("too many sessions")
	// ErrClosed: the manager is shutting down.
	ErrClosed = errors.New("the server is shutting down")
	// ErrNoRun: there is no run to wait for.
	ErrNoRun = errors.New("no such run")
	// ErrKeyExposed: others can read the key of session handles.
	ErrKeyExposed = errors.New("the key of session handles can be read by others")
)

// An EndedError says why a session of the caller is no more. It is an
// ErrUnknown too.
type EndedError struct {
	Why string // completes "That session has ended: "; "" when the server does not remember it
	// Restarted: it belonged to a server that ran before this one.
	Restarted bool
}

// Error implements error.
func (e *EndedError) Error() string {
	switch {
	case e.Restarted:
		return "That session ended when the server restarted."
	case e.Why == "":
		return "That session has ended."
	}
	return "That session has ended: " + e.Why + "."
}

// Is makes it an ErrUnknown.
func (*EndedError) Is(target error) bool { return target == ErrUnknown }

// A NoSessionError says that a call which only looks at a session found none:
// nothing was named and the protocol has no session, or Name is not in use.
type NoSessionError struct {
	Name string
	Own  []Summary // the caller's sessions
}

// Error implements error.
func (e *NoSessionError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("No session has the name %q.", e.Name)
	}
	return "This call needs a session, and the connection has none of its own."
}

// A TooManyError says which maximum is reached. It is an ErrTooMany too.
type TooManyError struct {
	Limit int
	Each  bool // the maximum of each principal, not that of the server
	// Promised, when set, is the memory that the sandboxes which live may take
	// together: the machine has no more to promise.
	Promised int64
	Own      []Summary // the caller's sessions
}

// Error implements error.
func (e *TooManyError) Error() string {
	if e.Promised > 0 {
		return fmt.Sprintf("The machine has no memory for another sandbox: those that live may take %s together.", sizeText(float64(e.Promised)))
	}
	if e.Each {
		return fmt.Sprintf("You have %d sessions, the most that one client may have (session.max_per_principal).", e.Limit)
	}
	return "The server has no room for another session."
}

// Is makes it an ErrTooMany.
func (*TooManyError) Is(target error) bool { return target == ErrTooMany }

// A BusyError says that another cell holds the session, or (RunID is "") that
// its sandbox takes long to start.
type BusyError struct {
	Session string // the handle
	RunID   string
	Since   time.Duration
	Begun   string // as in RunResult
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
	Missing  bool // there is no file of this name
	Outside  bool // a host path outside every root
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
