package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/hostmount"
)

// Engine creates sandboxes on one Docker daemon. It is safe for concurrent use.
type Engine struct {
	opts     Options
	api      *client.Client
	host     string
	instance string
	me       owner
	events   *watcher
	private  string // this process's directory of sockets and agents, made when needed

	background sync.WaitGroup // removals that outlasted their Create

	mu     sync.Mutex
	closed bool                // guarded by mu
	daemon *daemon             // guarded by mu; nil until the daemon answered
	agents map[string]string   // guarded by mu; staged copies of agents by their source
	uids   map[int]struct{}    // guarded by mu; user ids of this engine's sandboxes
	live   map[string]struct{} // guarded by mu; names of this engine's containers
}

var _ sandbox.Engine = (*Engine)(nil)

// daemon is what matters of the daemon's own description.
type daemon struct {
	local      bool // it runs on this machine's kernel and sees its files
	remapped   bool // container ids are not host ids
	memory     bool
	swap       bool
	pids       bool
	apparmor   bool
	seccomp    bool
	cpus       int
	machine    int64 // bytes of memory
	runtimes   map[string]struct{}
	defaultRun string
	version    string
}

// New makes an engine. It does not talk to the daemon.
func New(opts Options) (*Engine, error) {
	opts = opts.withDefaults()
	set := []client.Opt{client.WithAPIVersionNegotiation()}
	if opts.Host != "" {
		if _, err := client.ParseHostURL(opts.Host); err != nil {
			text := fmt.Sprintf("DOCKER_HOST is %s, which is not an address; it must be unix://PATH or tcp://HOST:PORT", opts.Host)
			return nil, &sandbox.FaultError{Class: sandbox.ErrUnavailable, Text: text, Err: err}
		}
		set = append(set, client.WithHost(opts.Host))
	}
	if opts.TLSDir != "" {
		file := func(name string) string { return filepath.Join(opts.TLSDir, name) }
		set = append(set, client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem")))
	}
	api, err := client.NewClientWithOpts(append(set, guardedDial)...)
	if err != nil {
		return nil, fmt.Errorf("docker: make client: %w", err)
	}
	instance, me := randomHex(8), self()
	e := &Engine{
		opts: opts, api: api, host: api.DaemonHost(), instance: instance, me: me,
		private: privateDir(opts.SocketDir, me), agents: map[string]string{}, uids: map[int]struct{}{}, live: map[string]struct{}{},
	}
	e.events = newWatcher(api, instance, opts.Log)
	return e, nil
}

// Name implements sandbox.Engine.
func (e *Engine) Name() string { return "docker" }

// Capabilities implements sandbox.Engine. What depends on the daemon is known
// once Check or Create has reached it.
func (e *Engine) Capabilities() sandbox.Capabilities {
	e.mu.Lock()
	d := e.daemon
	e.mu.Unlock()
	caps := sandbox.Capabilities{Isolation: "Docker", Network: true, HostExposed: true, HardMemory: true}
	if d == nil {
		return caps
	}
	name := e.opts.Runtime
	if name == "" {
		name = d.defaultRun
	}
	caps.Isolation = "Docker (" + name + ")"
	caps.LiveExpose = e.exposeFault(d) == nil
	caps.MachineMemory = d.machine
	return caps
}

// exposeFault tells why host files cannot be attached to running containers.
func (e *Engine) exposeFault(d *daemon) error {
	switch {
	case !d.local:
		return errors.New("the Docker daemon does not run on this machine's kernel")
	case e.opts.Runtime == runsc:
		return errors.New("gVisor does not see mounts made after its start")
	case d.remapped:
		return errors.New("the Docker daemon maps user ids")
	}
	return hostmount.Supported()
}

// Check implements sandbox.Engine.
func (e *Engine) Check(ctx context.Context) error {
	d, err := e.ask(ctx)
	if err != nil {
		return err
	}
	return e.usable(d)
}

// usable tells why sandboxes on this daemon would break their promises.
func (e *Engine) usable(d *daemon) error {
	fault := func(text string) error { return &sandbox.FaultError{Class: sandbox.ErrUnavailable, Text: text} }
	switch {
	case !d.memory:
		return fault("the Docker daemon cannot limit memory; enable the memory cgroup (kernel argument cgroup_enable=memory, or cgroup v2 for rootless Docker)")
	case !d.pids:
		return fault("the Docker daemon cannot limit processes; enable the pids cgroup (cgroup v2 for rootless Docker)")
	case e.opts.Runtime == "" && !d.seccomp:
		return fault("the Docker daemon has no seccomp; use a kernel and a Docker built with it")
	}
	if e.opts.Runtime != "" {
		if _, ok := d.runtimes[e.opts.Runtime]; !ok {
			return fault("the Docker daemon has no runtime " + e.opts.Runtime + "; add it to daemon.json or leave the runtime unset")
		}
	}
	return nil
}

// ask describes the daemon anew and remembers the answer.
func (e *Engine) ask(ctx context.Context) (*daemon, error) {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	info, err := e.api.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("docker: describe daemon: %w", explain(e.host, err))
	}
	if info.OSType != "linux" {
		return nil, &sandbox.FaultError{
			Class: sandbox.ErrUnavailable, Text: fmt.Sprintf("the Docker daemon runs %s containers; switch it to Linux containers", info.OSType),
		}
	}
	d := describe(info, e.host)
	e.mu.Lock()
	e.daemon = d
	e.mu.Unlock()
	return d, nil
}

// known is the remembered description, asked for when there is none.
func (e *Engine) known(ctx context.Context) (*daemon, error) {
	e.mu.Lock()
	d, closed := e.daemon, e.closed
	e.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("docker: %w", sandbox.ErrClosed)
	}
	if d != nil {
		return d, nil
	}
	d, err := e.ask(ctx)
	if err != nil {
		return nil, err
	}
	return d, e.usable(d)
}

func describe(info system.Info, host string) *daemon {
	d := &daemon{
		memory: info.MemoryLimit, swap: info.SwapLimit, pids: info.PidsLimit,
		cpus: info.NCPU, machine: info.MemTotal, runtimes: map[string]struct{}{}, defaultRun: info.DefaultRuntime, version: info.ServerVersion,
	}
	for name := range info.Runtimes {
		d.runtimes[name] = struct{}{}
	}
	for _, option := range info.SecurityOptions {
		switch {
		case strings.Contains(option, "name=userns"), strings.Contains(option, "name=rootless"):
			d.remapped = true
		case strings.Contains(option, "name=apparmor"):
			d.apparmor = true
		case strings.Contains(option, "name=seccomp"):
			d.seccomp = true
		}
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	d.local = runtime.GOOS == "linux" && err == nil && strings.HasPrefix(host, "unix://") &&
		strings.TrimSpace(string(release)) == info.KernelVersion &&
		!strings.Contains(info.OperatingSystem, "Docker Desktop")
	return d
}

// Close implements sandbox.Engine. It waits for the engine's own goroutines.
func (e *Engine) Close() error {
	e.mu.Lock()
	done := e.closed
	e.closed = true
	e.mu.Unlock()
	if done {
		return nil
	}
	e.background.Wait()
	e.events.close()
	if err := errors.Join(e.api.Close(), e.unstage()); err != nil {
		return fmt.Errorf("docker: close engine: %w", err)
	}
	return nil
}
