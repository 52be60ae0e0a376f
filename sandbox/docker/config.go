package docker

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// plan is everything that decides a container's configuration.
type plan struct {
	spec      sandbox.Spec
	uid       int
	runtime   string // "" or a runtime of the daemon
	socketDir string // host directory of the agent's socket; "" is stdio
	labels    map[string]string
}

// Sizes that are the same for every sandbox.
const (
	shmBytes    = 64 << 20
	openFiles   = 4096
	hostPIDs    = 4096 // gVisor: the Sentry's own threads, a far backstop
	cpuShare    = 256  // a quarter of a normal process's CPU weight
	oomScore    = 500  // the sandbox dies before the host's services
	inodes      = "64k"
	channelDir  = "/run/biocage"
	channelFile = "agent.sock"
)

func (p plan) gvisor() bool { return p.runtime == runsc }

// settings is the only place that decides what a container is and may do.
// A golden file and a test that knows every field of both structs guard it.
func settings(p plan) (*container.Config, *container.HostConfig) {
	return containerConfig(p), hostConfig(p)
}

func containerConfig(p plan) *container.Config {
	stopTimeout := 1
	user := strconv.Itoa(p.uid)
	command := append([]string{}, p.spec.Command...)
	if p.socketDir != "" {
		command = append(command, "--channel=unix:"+channelDir+"/"+channelFile)
	} else {
		command = append(command, "--channel=stdio")
	}
	if p.gvisor() {
		// PID 1 is not immune to signals there: another uid protects it.
		command = append(command, "--drop-uid="+user)
		user = "0"
	}
	return &container.Config{
		Hostname:     "sandbox",
		User:         user + ":" + user,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		OpenStdin:    true,
		StdinOnce:    true, // the lease: our connection ends, stdin ends, PID 1 ends
		Env:          p.spec.Env,
		Entrypoint:   command,
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
		Image:        p.spec.Root.Image,
		WorkingDir:   sandbox.WorkDir,
		// gVisor takes over the interfaces that are up; without a namespace
		// made by the daemon (mode none does) not even loopback would be.
		NetworkDisabled: p.spec.Network == sandbox.NetworkNone && !p.gvisor(),
		Labels:          p.labels,
		StopSignal:      "SIGKILL", // PID 1 ignores SIGTERM from its own namespace
		StopTimeout:     &stopTimeout,
	}
}

func hostConfig(p plan) *container.HostConfig {
	noInit, oomKill := false, false
	host := &container.HostConfig{
		LogConfig:      container.LogConfig{Type: "none"},
		NetworkMode:    "none",
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		AutoRemove:     true,
		CapDrop:        []string{"ALL"},
		CgroupnsMode:   container.CgroupnsModePrivate,
		IpcMode:        container.IPCModePrivate,
		OomScoreAdj:    oomScore,
		ReadonlyRootfs: true,
		SecurityOpt:    []string{"no-new-privileges"},
		Tmpfs:          tmpfs(p),
		ShmSize:        shmBytes,
		Runtime:        p.runtime,
		Mounts:         mounts(p),
		MaskedPaths:    maskedPaths(),
		ReadonlyPaths:  readonlyPaths(),
		Init:           &noInit, // the supervisor must be PID 1 itself
		Resources: container.Resources{
			CPUShares:      cpuShare,
			Memory:         p.spec.Limits.MemoryBytes,
			MemorySwap:     p.spec.Limits.MemoryBytes, // equal: no swap
			NanoCPUs:       int64(math.Round(p.spec.Limits.CPUs * 1e9)),
			OomKillDisable: &oomKill,
			PidsLimit:      &p.spec.Limits.PIDs,
			Ulimits:        ulimits(p),
		},
	}
	if p.spec.Network == sandbox.NetworkFull {
		host.NetworkMode = "bridge"
	}
	if p.gvisor() {
		// The Sentry applies its own filter and counts processes itself.
		host.CapAdd = []string{"CAP_KILL", "CAP_SETGID", "CAP_SETUID"}
		pids := int64(hostPIDs)
		host.PidsLimit = &pids
	} else {
		host.SecurityOpt = append(host.SecurityOpt, "seccomp="+seccompProfile)
	}
	return host
}

// tmpfs are the writable places, and the live roots, which only root of the
// host can write: it makes mount points there for late exposures. What pip
// gets over a network lies in /tmp, so compiled packages can be loaded there.
func tmpfs(p plan) map[string]string {
	size := p.spec.Limits.DiskBytes
	user := func(mode string) string {
		return fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,nr_inodes=%s,mode=%s,uid=%d,gid=%d", size, inodes, mode, p.uid, p.uid)
	}
	all := map[string]string{sandbox.WorkDir: user("0700"), sandbox.TempDir: user("1777")}
	if p.spec.Network == sandbox.NetworkFull {
		all[sandbox.TempDir] = strings.Replace(all[sandbox.TempDir], "noexec", "exec", 1)
	}
	for _, root := range sandbox.LiveRoots() {
		all[root] = "rw,noexec,nosuid,nodev,size=64k,nr_inodes=1k,mode=0755,uid=0,gid=0"
	}
	return all
}

func mounts(p plan) []mount.Mount {
	all := []mount.Mount{bind(p.spec.Agent, sandbox.AgentDir, sandbox.ReadOnly)}
	if p.socketDir != "" {
		all = append(all, bind(p.socketDir, channelDir, sandbox.ReadOnly))
	}
	for _, m := range p.spec.Mounts {
		all = append(all, bind(m.Host, m.Sandbox, m.Mode))
	}
	return all
}

// bind uses the Mounts form, which fails where the Binds form would silently
// make a missing host directory.
func bind(source, target string, mode sandbox.Mode) mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: source, Target: target, ReadOnly: mode == sandbox.ReadOnly,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
	}
}

func ulimits(p plan) []*container.Ulimit {
	limit := func(name string, value int64) *container.Ulimit {
		return &container.Ulimit{Name: name, Soft: value, Hard: value}
	}
	all := []*container.Ulimit{
		limit("core", 0),
		limit("nofile", openFiles),
		limit("fsize", p.spec.Limits.DiskBytes),
		limit("memlock", 0),
		limit("msgqueue", 0),
		limit("sigpending", 1024),
		limit("rtprio", 0),
		limit("nice", 0),
	}
	if p.gvisor() {
		all = append(all, limit("nproc", p.spec.Limits.PIDs)) // per sandbox there, per uid on runc
	}
	return all
}
