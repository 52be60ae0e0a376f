package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/biocypher/biocage-mcp/environment"
	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/pyagent"
	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/docker"
	"github.com/biocypher/biocage-mcp/session"
)

// A baseMaker makes what sandboxes are made from: engine, environment, agent.
// It is asked at the first need, because all of that may block.
type baseMaker struct {
	host   host
	pick   func(context.Context) (chosen, error)
	mounts []session.ExposeRequest // of the configuration, checked

	mu      sync.Mutex
	holds   []io.Closer // guarded by mu; the environment and the agent in use
	janitor *janitor    // guarded by mu; nil before the first need
}

func newBaseMaker(h host) *baseMaker { return &baseMaker{host: h, pick: h.choose} }

// make chooses the engine and prepares it. After an error nothing is kept.
func (b *baseMaker) make(ctx context.Context) (session.Base, error) {
	c, err := b.pick(ctx)
	if err != nil {
		return session.Base{}, err
	}
	b.guard(ctx, c.engine.Name())
	base, err := b.prepare(ctx, c)
	if err != nil {
		return session.Base{}, errors.Join(err, c.engine.Close())
	}
	b.host.log.InfoContext(ctx, "engine chosen", "engine", c.engine.Name(), "reason", c.reason,
		"isolation", c.engine.Capabilities().Isolation, "environment", base.Environment)
	if base.Spec.Network != sandbox.NetworkNone && c.engine.Capabilities().HostExposed {
		b.host.log.WarnContext(ctx, "with sandbox.network full, code in a sandbox reaches services of this host and a cloud's metadata service; "+
			"close them to the bridge in the host's firewall, or use engine gvisor", "engine", c.engine.Name())
	}
	if n, err := c.engine.Reap(ctx); err != nil && ctx.Err() == nil {
		b.host.log.WarnContext(ctx, "leftovers of earlier processes not removed", "error", err)
	} else if n > 0 {
		b.host.log.InfoContext(ctx, "leftovers of earlier processes removed", "sandboxes", n)
	}
	return base, nil
}

// guard starts the janitor, once. Without one nothing is worse than what a
// kill leaves until the next start.
func (b *baseMaker) guard(ctx context.Context, engine string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.janitor != nil {
		return
	}
	j, err := startJanitor(ctx, b.host.p, engine)
	if err != nil {
		b.host.log.WarnContext(ctx, "what a killed server leaves stays until the next start", "error", err)
		return
	}
	b.janitor = j
}

// hasJanitor tells whether somebody cleans up after this process.
func (b *baseMaker) hasJanitor() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.janitor != nil
}

func (b *baseMaker) prepare(ctx context.Context, c chosen) (session.Base, error) {
	cfg := b.host.cfg
	network := sandbox.NetworkNone
	if cfg.Sandbox.Network == "full" {
		network = sandbox.NetworkFull
	}
	if network != sandbox.NetworkNone && !c.engine.Capabilities().Network {
		return session.Base{}, noNetwork(c)
	}
	agent, err := b.host.agent(ctx)
	if err != nil {
		return session.Base{}, err
	}
	env, err := b.environment(ctx, c)
	if err != nil {
		return session.Base{}, errors.Join(err, agent.Close())
	}
	b.hold(agent)
	var packages []string
	for _, p := range env.Packages {
		packages = append(packages, p.Name)
	}
	fixed, live := splitMounts(b.mounts, c.engine.Capabilities().LiveExpose)
	return session.Base{
		Engine: c.engine,
		Spec: sandbox.Spec{
			Root:    sandbox.Root{Dir: env.Dir, Image: env.Image},
			Command: pyagent.Command(env.Python, sandbox.AgentDir),
			Env:     append(env.Env(), "HOME="+sandbox.WorkDir), // without one it is /root, which code may not write
			Agent:   agent.Dir,
			Limits:  limits(cfg.Sandbox),
			Network: network,
			Mounts:  fixed,
		},
		Environment: env.Name,
		Preload:     env.Preload,
		Packages:    packages,
		Mounts:      live,
	}, nil
}

// noNetwork says what to do about a network that the engine does not have.
func noNetwork(c chosen) error {
	text := fmt.Sprintf("sandbox.network is full, but the engine %s (taken because %s) gives sandboxes no network: "+
		"set engine to docker, with a Docker daemon running, or sandbox.network to none.", c.engine.Name(), c.reason)
	return &session.SandboxError{Message: text, Err: fmt.Errorf("%s %w", text, sandbox.ErrUnsupported)}
}

// splitMounts tells which mounts the engine makes with the sandbox and which
// are made as live exposures are: those get files the owner of their folder.
func splitMounts(all []session.ExposeRequest, canLive bool) (fixed []sandbox.Mount, live []session.ExposeRequest) {
	for _, m := range all {
		if canLive && session.CanExpose(m.SandboxPath) {
			live = append(live, m)
			continue
		}
		fixed = append(fixed, sandbox.Mount{Host: m.HostPath, Sandbox: m.SandboxPath, Mode: m.Mode})
	}
	return fixed, live
}

func limits(s config.Sandbox) sandbox.Limits {
	return sandbox.Limits{MemoryBytes: int64(s.Memory), CPUs: s.CPUs, PIDs: s.PIDs, DiskBytes: int64(s.Disk)}
}

// environment finds the configured environment, holds it and, for Docker,
// loads it into the daemon. For Docker it may be an image of the daemon's.
func (b *baseMaker) environment(ctx context.Context, c chosen) (environment.Environment, error) {
	name := b.host.cfg.Environment
	store, err := b.host.store(c.docker)
	if err != nil {
		return environment.Environment{}, err
	}
	env, err := store.Find(name)
	switch {
	case err == nil:
	case isImage(name) && c.docker == nil:
		return environment.Environment{}, noImage(c, name)
	case isImage(name):
		return imageEnvironment(ctx, c.docker, name)
	case errors.Is(err, environment.ErrNotBuilt):
		return environment.Environment{}, notBuilt(name)
	default:
		return environment.Environment{}, err
	}
	hold, err := store.Hold(env)
	if err != nil {
		return environment.Environment{}, b.host.dataFault(err)
	}
	if c.docker != nil {
		if err := store.Load(ctx, env); err != nil {
			return environment.Environment{}, errors.Join(err, hold.Close())
		}
	}
	b.hold(hold)
	return env, nil
}

// notBuilt is the fault of an environment that is missing.
func notBuilt(name string) error {
	return &sandbox.FaultError{
		Class: sandbox.ErrRootMissing, Text: fmt.Sprintf("the Python environment %q has not been built; run: %s", name, buildCommand(name)),
	}
}

// hold keeps what sandboxes are made from until Close.
func (b *baseMaker) hold(what io.Closer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holds = append(b.holds, what)
}

// buildCommand is what makes a missing environment be there.
func buildCommand(name string) string {
	if isImage(name) {
		return "docker pull " + name
	}
	return environment.BuildCommand(name)
}

// isImage tells an image reference from a name that could have been built.
func isImage(name string) bool { return strings.ContainsAny(name, ":/@") }

// noImage says what to do about an image reference on an engine that runs none.
func noImage(c chosen, ref string) error {
	text := fmt.Sprintf("environment is %s, an image, which only Docker can run, but the engine is %s (taken because %s): "+
		"set engine to docker, with a Docker daemon running, or environment to a name that `biocage env list` shows.", ref, c.engine.Name(), c.reason)
	return &session.SandboxError{Message: text, Err: fmt.Errorf("%s %w", text, sandbox.ErrUnsupported)}
}

// imageEnvironment takes an image of the daemon's as it is. It is never
// pulled here: that may take minutes, and a call waits for it.
func imageEnvironment(ctx context.Context, d *docker.Engine, ref string) (environment.Environment, error) {
	there, err := d.HasImage(ctx, ref)
	switch {
	case err != nil:
		return environment.Environment{}, err
	case !there:
		text := fmt.Sprintf("The image %s (environment) is not at the Docker daemon. Run `%s` on the server's machine, then call again.", ref, buildCommand(ref))
		return environment.Environment{}, &session.SandboxError{Message: text, Err: fmt.Errorf("the image %s: %w", ref, sandbox.ErrRootMissing)}
	}
	return environment.Environment{Name: ref, Image: ref, Python: "python3"}, nil
}

// Close lets go of the environments and dismisses the janitor. It is for a
// process that has nothing left to remove.
func (b *baseMaker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, hold := range b.holds {
		errs = append(errs, hold.Close())
	}
	b.holds = nil
	if b.janitor != nil {
		errs = append(errs, b.janitor.dismiss())
		b.janitor = nil
	}
	return errors.Join(errs...)
}
