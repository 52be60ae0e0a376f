//go:build linux && (amd64 || arm64)

package gvisor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Bounds that the caller's limits do not name.
const (
	shmBytes = 64 << 20
	// addressSpaceExtra is what a process may reserve beyond the memory limit:
	// thread stacks and the arenas of allocators that are never touched.
	addressSpaceExtra = 1 << 30
	openFiles         = 4096
)

// A bundle is what gVisor starts a sandbox from: a directory with an OCI
// configuration, and the host directories behind the live roots.
type bundle struct {
	dir    string // also the parent of the live roots
	spec   sandbox.Spec
	id     identity
	worker uint32 // the worker's uid inside; guestRoot when it cannot be another
	agent  string // the agent's directory; set by write
	live   bool   // host files beneath the live roots are attached, not mounted by gVisor
}

// liveDir is the host directory behind a live root.
func (b *bundle) liveDir(root string) string { return filepath.Join(b.dir, "live", root) }

// underDir is an empty host directory in which gVisor's file server makes the
// mount points that lie in the workspace or the temporary directory, which
// exist inside the sandbox only.
func (b *bundle) underDir(root string) string { return filepath.Join(b.dir, "under", root) }

// write makes the directory complete.
func (b *bundle) write() error {
	if err := errors.Join(b.checkSources(), makeOpen(b.dir)); err != nil {
		return err
	}
	if b.live {
		for _, root := range sandbox.LiveRoots() {
			if err := b.makeDir(b.liveDir(root)); err != nil {
				return err
			}
		}
	}
	for _, root := range b.covered() {
		if err := b.makeDir(b.underDir(root)); err != nil {
			return err
		}
	}
	if err := b.bringAgent(); err != nil {
		return err
	}
	if err := b.writeResolv(); err != nil {
		return err
	}
	raw, err := json.Marshal(b.oci())
	if err != nil {
		return err
	}
	if err := writeOpen(filepath.Join(b.dir, "config.json"), raw); err != nil {
		return err
	}
	view := bootView{CPUs: b.wholeCPUs(), MemoryBytes: b.spec.Limits.MemoryBytes}
	return view.write(b.dir)
}

// bringAgent copies the agent when it lies where a sandbox's users cannot go.
func (b *bundle) bringAgent() error {
	b.agent = b.spec.Agent
	if !b.id.pair || reachable(b.agent) == nil {
		return nil
	}
	b.agent = filepath.Join(b.dir, "agent")
	if err := os.CopyFS(b.agent, os.DirFS(b.spec.Agent)); err != nil {
		return fmt.Errorf("copy the agent: %w", err)
	}
	return nil
}

// makeDir makes a directory that belongs to the sandbox's root.
func (b *bundle) makeDir(dir string) error {
	if err := makeOpen(dir); err != nil {
		return err
	}
	if !b.id.pair {
		return nil
	}
	return os.Chown(dir, int(b.id.hostUID), int(b.id.hostGID))
}

func (b *bundle) wholeCPUs() int { return max(1, int(math.Ceil(b.spec.Limits.CPUs))) }

// covered lists the directories below which a mount lies although the host
// does not see them.
func (b *bundle) covered() []string {
	var roots []string
	inside := []string{sandbox.WorkDir, sandbox.TempDir}
	if !b.live {
		inside = append(inside, sandbox.LiveRoots()...)
	}
	for _, root := range inside {
		if slices.ContainsFunc(b.spec.Mounts, func(m sandbox.Mount) bool { return beneath(m.Sandbox, root) }) {
			roots = append(roots, root)
		}
	}
	return roots
}

func beneath(target, root string) bool {
	return len(target) > len(root) && target[:len(root)] == root && target[len(root)] == '/'
}

func (b *bundle) oci() *specs.Spec {
	uids, gids := b.id.mappings()
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: "biocage",
		Root:     &specs.Root{Path: b.spec.Root.Dir, Readonly: true},
		Process:  b.process(),
		Mounts:   b.mounts(),
		Linux: &specs.Linux{
			UIDMappings: uids,
			GIDMappings: gids,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.UserNamespace},
			},
		},
	}
}

func (b *bundle) process() *specs.Process {
	args := slices.Clone(b.spec.Command)
	args = append(args, "--channel="+channelArg)
	caps := &specs.LinuxCapabilities{}
	if b.worker != guestRoot {
		args = append(args, "--drop-uid="+strconv.Itoa(int(b.worker)))
		// What the supervisor needs to become, and to end, its worker.
		names := []string{"CAP_SETUID", "CAP_SETGID", "CAP_KILL"}
		caps.Bounding, caps.Permitted, caps.Effective = names, names, names
	}
	return &specs.Process{
		Args:            args,
		Env:             b.spec.Env,
		Cwd:             sandbox.WorkDir,
		User:            specs.User{UID: guestRoot, GID: guestRoot},
		Capabilities:    caps,
		NoNewPrivileges: true,
		Rlimits:         b.rlimits(),
	}
}

func (b *bundle) rlimits() []specs.POSIXRlimit {
	limits := b.spec.Limits
	set := func(name string, value int64) specs.POSIXRlimit {
		return specs.POSIXRlimit{Type: name, Soft: uint64(value), Hard: uint64(value)}
	}
	return []specs.POSIXRlimit{
		set("RLIMIT_AS", limits.MemoryBytes+addressSpaceExtra),
		set("RLIMIT_NPROC", limits.PIDs),
		set("RLIMIT_FSIZE", limits.DiskBytes),
		set("RLIMIT_CORE", 0),
		set("RLIMIT_NOFILE", openFiles),
	}
}

func (b *bundle) mounts() []specs.Mount {
	tmpfs := func(dest, mode string, size int64, uid uint32) specs.Mount {
		return specs.Mount{Destination: dest, Type: "tmpfs", Source: "tmpfs", Options: []string{
			"nosuid", "nodev", "mode=" + mode, fmt.Sprintf("size=%d", size), fmt.Sprintf("uid=%d", uid), fmt.Sprintf("gid=%d", uid),
		}}
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
		tmpfs("/dev/shm", "1777", shmBytes, guestRoot),
		bind(b.agent, sandbox.AgentDir, sandbox.ReadOnly),
	}
	covered := b.covered()
	for _, root := range covered {
		mounts = append(mounts, bind(b.underDir(root), root, sandbox.ReadOnly))
	}
	// gVisor mounts by length of the destination, and not stably: a second
	// slash puts the real directory above the empty one and below what lies in it.
	place := func(root string) string {
		if slices.Contains(covered, root) {
			return "/" + root
		}
		return root
	}
	mounts = append(mounts,
		tmpfs(place(sandbox.TempDir), "1777", b.spec.Limits.DiskBytes, guestRoot),
		tmpfs(place(sandbox.WorkDir), "0755", b.spec.Limits.DiskBytes, b.worker))
	for _, root := range sandbox.LiveRoots() {
		if b.live {
			// A read-only mount would make all that is attached below it
			// read-only inside the sandbox.
			mounts = append(mounts, bind(b.liveDir(root), root, sandbox.ReadWrite))
			continue
		}
		// Where nothing can be attached, exposures are copied here.
		mounts = append(mounts, tmpfs(place(root), "0755", b.spec.Limits.DiskBytes, b.worker))
	}
	if b.spec.Network == sandbox.NetworkFull {
		mounts = append(mounts, bind(b.resolvFile(), resolvConf, sandbox.ReadOnly))
	}
	return append(mounts, b.exposed()...)
}

// exposed are the mounts that gVisor makes.
func (b *bundle) exposed() []specs.Mount {
	var mounts []specs.Mount
	for _, m := range b.spec.Mounts {
		if !b.attaches(m) {
			mounts = append(mounts, bind(m.Host, m.Sandbox, m.Mode))
		}
	}
	return mounts
}

// checkSources refuses what gVisor's file server cannot reach: it would ask
// this process for it, at the price of a thread that never ends.
func (b *bundle) checkSources() error {
	if !b.live {
		return nil
	}
	for _, m := range b.spec.Mounts {
		if !b.attaches(m) && reachable(m.Host) != nil {
			return fmt.Errorf("%s is closed to other users and can only appear beneath %s, not at %s: %w",
				m.Host, strings.Join(sandbox.LiveRoots(), ", "), m.Sandbox, sandbox.ErrUnsupported)
		}
	}
	return nil
}

// attached are the mounts that are made as those of a running sandbox are,
// outer ones first.
func (b *bundle) attached() []sandbox.Mount {
	ordered := slices.SortedStableFunc(slices.Values(b.spec.Mounts), func(x, y sandbox.Mount) int {
		return cmp.Compare(x.Sandbox, y.Sandbox)
	})
	return slices.DeleteFunc(ordered, func(m sandbox.Mount) bool { return !b.attaches(m) })
}

func (b *bundle) attaches(m sandbox.Mount) bool {
	return b.live && slices.ContainsFunc(sandbox.LiveRoots(), func(root string) bool { return beneath(m.Sandbox, root) })
}

func bind(source, dest string, mode sandbox.Mode) specs.Mount {
	return specs.Mount{Destination: dest, Type: "bind", Source: source, Options: []string{"rbind", "nosuid", "nodev", mode.String()}}
}
