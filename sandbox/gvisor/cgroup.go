//go:build linux && (amd64 || arm64)

package gvisor

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// gVisor's own handling of control groups moves the calling process into the
// sandbox's group for a moment on version 1, which is not acceptable in a
// server. So the groups are made here, and the sandbox's two processes are
// moved in after the kernel of the sandbox has started and before its first
// process has: everything that user code does happens inside.

const (
	// kernelBytes is what the sentry and the gofer themselves need beside the
	// limit that the sandbox's user asked for, and forkBytes what a forked
	// process needs in gVisor beyond what it would on the host, because memory
	// is copied in larger pieces.
	kernelBytes = 96 << 20
	forkBytes   = 1 << 20
	// groupPIDs bounds host threads; a process of the sandbox is bounded by
	// RLIMIT_NPROC, and the sentry dies when it cannot make threads.
	groupPIDs = 4096
	cpuPeriod = 100_000 // microseconds
)

// A cgroupTree is where an instance's groups are: one directory for each
// controller on version 1, the same directory for all on version 2.
type cgroupTree struct {
	v2   bool
	dirs map[string]string // controller -> directory of the instance
}

// A cgroup is one sandbox's.
type cgroup struct {
	v2   bool
	dirs map[string]string // controller -> directory
}

// wantedControllers: without memory the rest is not worth it.
func wantedControllers() []string { return []string{"memory", "cpu", "cpuacct", "pids"} }

// newCgroupTree makes the instance's groups, or returns nil when this process
// may not.
func newCgroupTree(name string) *cgroupTree {
	for _, found := range []*cgroupTree{findV1(), findV2()} {
		if found == nil {
			continue
		}
		if made := found.makeChild(name); made != nil {
			return made
		}
	}
	return nil
}

func (t *cgroupTree) makeChild(name string) *cgroupTree {
	made := &cgroupTree{v2: t.v2, dirs: map[string]string{}}
	for _, controller := range wantedControllers() {
		parent, ok := t.dirs[controller]
		if !ok {
			continue
		}
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			continue
		}
		made.dirs[controller] = dir
	}
	usable := made.dirs["memory"] != ""
	if usable && made.v2 {
		usable = delegate(made.dirs["memory"]) == nil
	}
	if !usable {
		_ = made.remove() // just made and empty; another kind is tried next
		return nil
	}
	return made
}

// delegate lets the children of a version 2 group have limits.
func delegate(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(raw)) {
		if slices.Contains(wantedControllers(), controller) {
			if err := writeFile(dir, "cgroup.subtree_control", "+"+controller); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes the tree's own directories; they must be empty.
func (t *cgroupTree) remove() error { return removeDirs(t.dirs) }

func removeDirs(dirs map[string]string) error {
	var errs []error
	for _, dir := range dirs {
		err := os.Remove(dir)
		if err == nil {
			continue
		}
		// What is not there cannot be removed; on a read-only file system, as
		// containers have it, the error says only that nothing can be.
		if _, there := os.Lstat(dir); !errors.Is(there, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// create makes a sandbox's group with its limits set.
func (t *cgroupTree) create(id string, limits sandbox.Limits) (*cgroup, error) {
	g := &cgroup{v2: t.v2, dirs: map[string]string{}}
	for controller, parent := range t.dirs {
		dir := filepath.Join(parent, id)
		if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(err, g.remove())
		}
		g.dirs[controller] = dir
	}
	if err := g.limit(limits); err != nil {
		return nil, errors.Join(fmt.Errorf("limit the control group: %w", err), g.remove())
	}
	return g, nil
}

// hardMemory is the bound of all host memory of a sandbox.
func hardMemory(limits sandbox.Limits) int64 {
	return limits.MemoryBytes + kernelBytes + forkBytes*limits.PIDs
}

func (g *cgroup) limit(limits sandbox.Limits) error {
	memory := strconv.FormatInt(hardMemory(limits), 10)
	quota := strconv.FormatInt(max(1000, int64(limits.CPUs*cpuPeriod)), 10)
	if g.v2 {
		return errors.Join(
			g.set("memory", "memory.max", memory),
			g.setIfThere("memory", "memory.swap.max", "0"),
			g.setIfThere("memory", "memory.oom.group", "1"),
			g.setIfThere("cpu", "cpu.max", quota+" "+strconv.Itoa(cpuPeriod)),
			g.setIfThere("pids", "pids.max", strconv.Itoa(groupPIDs)))
	}
	return errors.Join(
		g.set("memory", "memory.limit_in_bytes", memory),
		g.setIfThere("memory", "memory.memsw.limit_in_bytes", memory),
		g.setIfThere("cpu", "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)),
		g.setIfThere("cpu", "cpu.cfs_quota_us", quota),
		g.setIfThere("pids", "pids.max", strconv.Itoa(groupPIDs)))
}

// add moves a process, with all its threads, into the group.
func (g *cgroup) add(pid int) error {
	for _, dir := range g.dirs {
		if err := writeFile(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("move a process into its control group: %w", err)
		}
	}
	return nil
}

// remove deletes the group once its processes have ended; the kernel may need
// a moment for the last of them.
func (g *cgroup) remove() error {
	var err error
	for range 50 {
		if err = removeDirs(g.dirs); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("remove the control group: %w", err)
}

// oomKills counts the processes that the memory limit killed.
func (g *cgroup) oomKills() (int64, error) {
	if g.v2 {
		return g.number("memory", "memory.events", "oom_kill")
	}
	return g.number("memory", "memory.oom_control", "oom_kill")
}

func (g *cgroup) stats() (sandbox.Stats, error) {
	stats := sandbox.Stats{CPU: -1, PIDs: -1, OOMKills: -1}
	fields := []string{"anon", "shmem"}
	if !g.v2 {
		fields = []string{"total_rss", "total_shmem"}
	}
	for _, field := range fields {
		n, err := g.number("memory", "memory.stat", field)
		if err != nil {
			return stats, err
		}
		stats.MemoryBytes += n
	}
	if kills, err := g.oomKills(); err == nil {
		stats.OOMKills = kills
	}
	if g.v2 {
		if usec, err := g.number("cpu", "cpu.stat", "usage_usec"); err == nil {
			stats.CPU = time.Duration(usec) * time.Microsecond
		}
	} else if nsec, err := g.number("cpuacct", "cpuacct.usage", ""); err == nil {
		stats.CPU = time.Duration(nsec)
	}
	return stats, nil
}

// number reads a field of a "name value" file, or the only number of a file.
func (g *cgroup) number(controller, file, field string) (int64, error) {
	dir, ok := g.dirs[controller]
	if !ok {
		return 0, fmt.Errorf("no %s controller: %w", controller, fs.ErrNotExist)
	}
	opened, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	defer func() { _ = opened.Close() }()
	for lines := bufio.NewScanner(opened); lines.Scan(); {
		name, value, found := strings.Cut(lines.Text(), " ")
		if !found && field == "" {
			return strconv.ParseInt(name, 10, 64)
		}
		if name == field {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no field %q", file, field)
}

func (g *cgroup) set(controller, file, value string) error {
	return writeFile(g.dirs[controller], file, value)
}

// setIfThere leaves out what this kernel or this host does not have.
func (g *cgroup) setIfThere(controller, file, value string) error {
	dir, ok := g.dirs[controller]
	if !ok {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return writeFile(dir, file, value)
}

func writeFile(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600)
}
