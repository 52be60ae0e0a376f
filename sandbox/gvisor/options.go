package gvisor

import "log/slog"

// Options configure an Engine.
type Options struct {
	// RunDir holds what sandboxes need while they run; it is shared by all
	// servers of one user. Absolute and short (at most MaxRunDir bytes,
	// because sockets live below it), best on a tmpfs. It is made when it is
	// not there, and must belong to this user.
	RunDir string
	// Logger gets the engine's events, and gVisor's own words at debug level.
	// Nil means none.
	Logger *slog.Logger
	// NoCgroups leaves control groups alone: CPU limits are then whole
	// processors, and memory limits are watched from this process.
	NoCgroups bool
}

// MaxRunDir is the most bytes that Options.RunDir may have.
const MaxRunDir = 48
