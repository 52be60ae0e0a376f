package sandbox

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Places inside every sandbox, the same for all engines.
const (
	WorkDir  = "/work"        // the workspace: tmpfs, writable, the working directory
	TempDir  = "/tmp"         // tmpfs, writable
	ShmDir   = "/dev/shm"     // tmpfs, writable, for shared memory
	AgentDir = "/opt/biocage" // the agent's source, read-only
)

// LiveRoots are the directories beneath which host files can be attached to a
// running sandbox; each is an empty tmpfs owned by root from the start.
func LiveRoots() []string { return []string{"/data", "/app", "/mnt"} }

// Mode says what a sandbox may do with host files: ReadOnly is the zero value.
type Mode int

// The two modes.
const (
	ReadOnly Mode = iota
	ReadWrite
)

// String is "ro" or "rw".
func (m Mode) String() string {
	if m == ReadWrite {
		return "rw"
	}
	return "ro"
}

// Network says what a sandbox can reach: NetworkNone is the zero value.
type Network int

// The two networks.
const (
	NetworkNone Network = iota // loopback only
	NetworkFull                // other machines, as far as the engine's own rules let it
)

// Limits bound a sandbox. All must be positive.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	PIDs        int64
	DiskBytes   int64 // the workspace and /tmp, each
}

// A Mount is a host path that is present from the sandbox's start.
type Mount struct {
	Host    string // absolute, exists, symlinks resolved
	Sandbox string // absolute
	Mode    Mode
}

// Root is what a sandbox starts from: both forms have the same content.
type Root struct {
	Dir   string // a root file system on this host; "" when only Image is there
	Image string // an image of the Docker daemon; "" when only Dir is there
}

// Spec describes one sandbox. Its zero value is the most restrictive.
type Spec struct {
	Root    Root
	Session string   // a short label for people (never a secret)
	Command []string // the supervisor's command; engines append --channel=... (PROTOCOL.md)
	Env     []string // the complete environment, KEY=VALUE
	Agent   string   // host directory that is mounted read-only at AgentDir
	Limits  Limits
	Network Network
	Mounts  []Mount
}

// Validate reports every fault of the spec, joined.
func (s Spec) Validate() error {
	var errs []error
	bad := func(field, reason string) { errs = append(errs, &SpecError{Field: field, Reason: reason}) }
	if s.Root.Dir == "" && s.Root.Image == "" {
		bad("Root", "neither a directory nor an image")
	}
	if len(s.Command) == 0 {
		bad("Command", "is empty")
	}
	if s.Agent == "" {
		bad("Agent", "is empty")
	}
	if s.Limits.MemoryBytes < 64<<20 {
		bad("Limits.MemoryBytes", "is below 64 MiB")
	}
	if s.Limits.CPUs <= 0 {
		bad("Limits.CPUs", "must be positive")
	}
	if s.Limits.PIDs < 16 {
		bad("Limits.PIDs", "is below 16")
	}
	if s.Limits.DiskBytes < 1<<20 {
		bad("Limits.DiskBytes", "is below 1 MiB")
	}
	for i, m := range s.Mounts {
		if err := CheckTarget(m.Sandbox); err != nil {
			bad(fmt.Sprintf("Mounts[%d].Sandbox", i), err.Error())
		}
		if !path.IsAbs(m.Host) {
			bad(fmt.Sprintf("Mounts[%d].Host", i), "is not absolute")
		}
	}
	return errors.Join(errs...)
}

// CheckTarget tells why target cannot be a place for host files inside a
// sandbox, or nil: it must be absolute, clean, and not cover what a sandbox
// itself needs.
func CheckTarget(target string) error {
	switch {
	case strings.ContainsAny(target, "\x00\n\r"):
		return errors.New("holds a control character")
	case !path.IsAbs(target):
		return errors.New("is not an absolute path")
	case len(target) > 4095 || slices.ContainsFunc(strings.Split(target, "/"), func(name string) bool { return len(name) > 255 }):
		return errors.New("is too long: at most 255 bytes a name and 4095 in all")
	case path.Clean(target) != target:
		return fmt.Errorf("is not a clean path; use %s", path.Clean(target))
	case target == "/" || target == WorkDir || target == TempDir:
		return fmt.Errorf("%s itself cannot be covered", target)
	}
	top := "/" + strings.SplitN(target[1:], "/", 2)[0]
	switch top {
	case "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var":
		return fmt.Errorf("%s belongs to the sandbox's own system; use a path beneath /data", top)
	}
	return nil
}
