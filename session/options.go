package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// A Base is what every session's sandbox is made from.
type Base struct {
	Engine      sandbox.Engine
	Spec        sandbox.Spec // complete but for Session
	Environment string       // its name, for people
	Preload     []string     // modules that the zygote imports
	Packages    []string     // names that hints may offer as installed
	// Mounts are present in every session from its start, beneath a live root,
	// the workspace or the temporary folder; other places are in Spec.Mounts.
	Mounts []ExposeRequest
}

// A HostRoot is a host folder from which Expose may take files.
type HostRoot struct {
	Path string
	Mode sandbox.Mode // the most that an exposure beneath it may get
}

// Options configure a Manager. Durations and sizes must be positive unless
// said otherwise.
type Options struct {
	// Base is called when the first sandbox is needed, and again after it
	// failed: choosing an engine may block and must not delay a start.
	Base func(ctx context.Context) (Base, error)

	Timeout        time.Duration // of a run that names none
	MaxTimeout     time.Duration // the most that a run may ask for
	AnswerWithin   time.Duration // when Run answers "running"
	InterruptGrace time.Duration // between an interrupt and the kill
	QueueWait      time.Duration // how long one run may hold up a call behind it, and a call waits for room
	StartTimeout   time.Duration // for making a sandbox ready
	MaxOutput      int64         // bytes kept of each text of a run
	StopOnFailure  bool          // a failed run ends the sandbox

	IdleTimeout time.Duration
	Grace       time.Duration // how long a session outlives its connection; may be 0
	MaxSessions int
	MaxEach     int // sessions of one principal; 0: MaxSessions
	Starts      int // sandboxes made at once for sessions; 0: 2
	Warm        int // sandboxes kept ready; 0: none

	// HandleKey proves handles, see LoadKey; nil: one that ends with the manager.
	HandleKey []byte

	Roots []HostRoot
	// Ask: a path outside the roots is an OutsideError, if the person may allow it.
	Ask bool
	// Home and Private are never given away, nor is what holds them, whoever
	// asks: the home directory as a whole, and this server's own files.
	Home    string
	Private []string
	// Own are single files of this server, which folders may lie around.
	Own []OwnFile

	Logger *slog.Logger

	Observer Observer // nil: nobody is told
	// Trace is told of what is done for a call as it begins: its context is
	// that of the parts, and the function is called at the end with "ok" or the
	// Kind of a RunError. nil: nobody is told.
	Trace func(ctx context.Context, step string) (context.Context, func(outcome string))
}
