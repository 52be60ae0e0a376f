package environment

import (
	"errors"
	"strconv"
)

// The classes of this package's failures.
var (
	// ErrNotBuilt: there is no environment of that name.
	ErrNotBuilt = errors.New("the environment is not built")
	// ErrInUse: a process holds the environment, so it cannot be removed.
	ErrInUse = errors.New("the environment is in use")
	// ErrShared: the environment belongs to the machine, not to this user.
	ErrShared = errors.New("the environment belongs to the machine")
	// ErrBusy: another process builds or removes the same environment now.
	ErrBusy = errors.New("another process is building or removing this environment")
	// ErrName: the name cannot name an environment.
	ErrName = errors.New("not a name for an environment: use lower-case letters and digits, with single '.', '_' or '-' between them, at most 64 characters")
	// ErrNoBase: none of the ways to get a base system works here.
	ErrNoBase = errors.New("no base system to build from")
	// ErrNoDocker: an image was asked for, but the store knows no Docker daemon.
	ErrNoDocker = errors.New("no Docker daemon to load the environment into")
	// ErrProject: the project file has faults; each is joined as a *ProjectError.
	ErrProject = errors.New("the project file cannot be used")
	// ErrLock: the requirements lock cannot be used.
	ErrLock = errors.New("the requirements lock cannot be used")
)

// A ProjectError is one thing wrong with a project file.
type ProjectError struct {
	File   string
	Line   int    // 0 when unknown
	Key    string // dotted, "" when the whole file is meant
	Reason string
}

// Error implements error: file:line: key: reason.
func (f *ProjectError) Error() string {
	text := f.File
	if f.Line > 0 {
		text += ":" + strconv.Itoa(f.Line)
	}
	if f.Key != "" {
		text += ": " + f.Key
	}
	return text + ": " + f.Reason
}
