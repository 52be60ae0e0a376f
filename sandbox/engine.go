package sandbox

import (
	"context"
	"io"
	"os"
	"time"
)

// An Engine creates sandboxes by one kind of isolation. Its methods may be
// called from several goroutines at once.
type Engine interface {
	// Name is the engine's word in configuration and answers: "docker", "gvisor".
	Name() string
	// Capabilities tells what this engine can do here. It never blocks.
	Capabilities() Capabilities
	// Check tells why Create cannot work on this machine (wrapping
	// ErrUnavailable, with the remedy), or nil.
	Check(ctx context.Context) error
	// Create makes and starts a sandbox. ctx bounds the creation only, never
	// the sandbox's life. After an error nothing is left.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Reap removes what dead processes left behind (sandboxes, mounts,
	// folders), whoever they were, and tells how many sandboxes. It never
	// touches what belongs to a living process.
	Reap(ctx context.Context) (int, error)
	// Close releases the engine; sandboxes must have been closed before.
	Close() error
}

// A Sandbox is one running sandbox. Close may be called at any time, more
// than once and beside every other method.
type Sandbox interface {
	// ID names the sandbox outside: the container's id.
	ID() string
	// Stream carries the agent's protocol. It is the lease too: the sandbox
	// ends when the stream is closed.
	Stream() io.ReadWriteCloser
	// Done is closed when the sandbox has ended, for whatever reason.
	Done() <-chan struct{}
	// Exit tells how the sandbox ended; only valid after Done.
	Exit() Exit
	// Stats measures the sandbox from outside.
	Stats(ctx context.Context) (Stats, error)
	// Close kills everything in the sandbox and deletes it. It is idempotent
	// and returns when nothing is left, or with the reason why not.
	Close(ctx context.Context) error
}

// An Exposer is a Sandbox that can attach host files while it runs, without
// copying. Engines whose Capabilities say LiveExpose return such sandboxes.
type Exposer interface {
	// Expose attaches source, an open file or directory of the host, at
	// target (absolute, beneath one of LiveRoots).
	Expose(ctx context.Context, source *os.File, target string, mode Mode) error
}

// Capabilities are declared, never probed by type assertions alone.
type Capabilities struct {
	// Isolation is one phrase for people: "gVisor (systrap)", "Docker (runc)".
	Isolation string
	// LiveExpose: sandboxes implement Exposer on this machine.
	LiveExpose bool
	// Network: the spec may ask for NetworkFull.
	Network bool
	// HostExposed: with NetworkFull code reaches services of this host too.
	HostExposed bool
	// HardMemory: a limit outside the interpreter bounds the whole sandbox.
	HardMemory bool
	// MachineMemory is what the machine of the sandboxes has, in bytes; 0: not known.
	MachineMemory int64
}

// Exit tells how a sandbox ended.
type Exit struct {
	Code      int  // exit code of the first process; 128+n after signal n
	OOMKilled bool // the memory limit killed it, as seen from outside
	Closed    bool // the end was asked for by Close
	Reason    string
}

// Stats are measured outside the sandbox.
type Stats struct {
	MemoryBytes int64         // resident, all processes
	OOMKills    int64         // processes killed by the memory limit so far; -1 when unknown
	CPU         time.Duration // CPU time used; -1 when unknown
	PIDs        int           // processes; -1 when unknown
}
