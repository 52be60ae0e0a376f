package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// A making is one Create under way, with what must be undone if it fails, in
// reverse order.
type making struct {
	engine *Engine
	daemon *daemon
	plan   plan
	name   string
	door   *door // nil with the attached streams
	undo   []func() error
}

// Create implements sandbox.Engine.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	if spec.Root.Image == "" {
		return nil, fmt.Errorf("docker: %w as an image; run: biocage env build", sandbox.ErrRootMissing)
	}
	d, err := e.known(ctx)
	if err != nil {
		return nil, err
	}
	m := &making{engine: e, daemon: d, name: "biocage-" + randomHex(8)}
	s, err := m.run(ctx, spec)
	if err == nil {
		return s, nil
	}
	// The reason why ctx ended says more than the call that noticed it.
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	for _, undo := range slices.Backward(m.undo) {
		err = errors.Join(err, undo())
	}
	return nil, fmt.Errorf("docker: create sandbox: %w", err)
}

func (m *making) onFailure(undo func() error) { m.undo = append(m.undo, undo) }

func (m *making) run(ctx context.Context, spec sandbox.Spec) (*Sandbox, error) {
	if err := m.prepare(ctx, spec); err != nil {
		return nil, err
	}
	id, err := m.container(ctx)
	if err != nil {
		return nil, err
	}
	e := m.engine
	e.events.track(id)
	m.onFailure(func() error { e.events.forget(id); return nil })
	attached, err := m.attach(ctx, id)
	if err != nil {
		return nil, err
	}
	exited, failed, stop, err := m.wait(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := m.start(ctx, id); err != nil {
		stop()
		drain(exited, failed)
		return nil, err
	}
	s := newSandbox(e, id, m.name, m.plan.uid, attached, m.door == nil)
	s.start(exited, failed, stop)
	m.undo = append(m.undo[:0], func() error {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupCall)
		defer cancel()
		return errors.Join(s.Close(clean), m.closeDoor())
	})
	if err := m.connect(ctx, s, attached); err != nil {
		return nil, err
	}
	return s, nil
}

// prepare takes what a container needs before it exists.
func (m *making) prepare(ctx context.Context, spec sandbox.Spec) error {
	e := m.engine
	uid, err := e.takeUID(ctx, m.daemon)
	if err != nil {
		return err
	}
	e.hold(m.name)
	m.onFailure(func() error { e.freeUID(uid); e.release(m.name); return nil })
	if cpus := float64(m.daemon.cpus); cpus > 0 && spec.Limits.CPUs > cpus {
		spec.Limits.CPUs = cpus // the daemon refuses more than there are
	}
	if m.daemon.local {
		spec.Agent = e.stagedAgent(ctx, spec.Agent)
	}
	m.plan = plan{
		spec: spec, uid: uid, runtime: e.opts.Runtime,
		labels: e.labels(spec.Session, uid, time.Now()),
	}
	if !m.daemon.local || e.opts.Channel == ChannelStdio || m.plan.gvisor() {
		return nil
	}
	door, err := openDoor(e.private)
	if errors.Is(err, errLongPath) {
		e.opts.Log.WarnContext(ctx, "docker frames travel by the slower attached streams", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	m.door = door
	m.plan.socketDir = door.dir
	m.onFailure(m.closeDoor)
	return nil
}

func (m *making) closeDoor() error {
	if m.door == nil {
		return nil
	}
	return m.door.close()
}

// container asks for the container. A daemon may finish a creation whose
// caller has gone, so the call is not cancelled with ctx: its answer is
// awaited for a while, and what it made is removed; if even that takes too
// long, the removal goes on behind and Engine.Close waits for it.
func (m *making) container(ctx context.Context) (string, error) {
	e := m.engine
	config, host := settings(m.plan)
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), slowCall)
	type answer struct {
		id  string
		err error
	}
	answered := make(chan answer, 1)
	e.background.Go(func() {
		defer cancel()
		made, err := e.api.ContainerCreate(calling, config, host, nil, nil, m.name)
		answered <- answer{made.ID, err}
	})
	remove := func() error { return e.removeWithin(ctx, m.name) }
	select {
	case a := <-answered:
		m.onFailure(remove) // a lost answer may still have made it
		return a.id, explain(e.host, a.err)
	case <-ctx.Done():
	}
	late := time.NewTimer(cleanupCall)
	defer late.Stop()
	select {
	case <-answered:
		m.onFailure(remove)
	case <-late.C:
		e.background.Go(func() {
			<-answered
			if err := remove(); err != nil {
				e.opts.Log.WarnContext(ctx, "docker container of a cancelled creation was not removed", "name", m.name, "error", err)
			}
		})
	}
	return "", context.Cause(ctx)
}

func (m *making) attach(ctx context.Context, id string) (types.HijackedResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	guarded, guard := withGuard(ctx)
	attached, err := m.engine.api.ContainerAttach(guarded, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if !guard.lift() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return types.HijackedResponse{}, fmt.Errorf("attach: %w", explain(m.engine.host, err))
	}
	m.onFailure(attached.Conn.Close)
	return attached, nil
}

// wait begins to watch for the container's end. The watch outlives ctx, but
// ctx and a deadline bound its beginning; the client leaves both to the caller.
// A daemon that refuses has answered when ContainerWait returns.
func (m *making) wait(ctx context.Context, id string) (<-chan container.WaitResponse, <-chan error, context.CancelFunc, error) {
	waiting, stop := context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(quickCall, stop)
	defer late.Stop()
	unwatch := context.AfterFunc(ctx, stop)
	defer unwatch()
	exited, failed := m.engine.api.ContainerWait(waiting, id, container.WaitConditionNextExit)
	select {
	case err := <-failed:
		stop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, nil, nil, fmt.Errorf("wait: %w", explain(m.engine.host, err))
	default:
		return exited, failed, stop, nil
	}
}

func (m *making) start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, slowCall)
	defer cancel()
	if err := m.engine.api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return fmt.Errorf("start: %w", explain(m.engine.host, err))
	}
	return nil
}

// connect verifies the running container and opens the agent's channel.
func (m *making) connect(ctx context.Context, s *Sandbox, attached types.HijackedResponse) error {
	if m.door != nil {
		if err := writeSecret(ctx, attached.Conn, m.door.secret); err != nil {
			return s.endedInstead(err)
		}
	}
	if err := m.verify(ctx, s); err != nil {
		return s.endedInstead(err)
	}
	if m.door == nil {
		return nil
	}
	waiting, cancel := context.WithTimeoutCause(ctx, agentConnect, errors.New("the agent did not connect in time"))
	defer cancel()
	waiting, ended := context.WithCancelCause(waiting)
	defer ended(nil)
	stop := s.onEnd(func() { ended(errEnded) })
	defer stop()
	conn, err := m.door.accept(waiting)
	if err != nil {
		return s.endedInstead(err)
	}
	s.stream.open(conn)
	return nil
}

func writeSecret(ctx context.Context, stdin net.Conn, secret []byte) error {
	deadline := time.Now().Add(quickCall)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := stdin.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("write secret: %w", err)
	}
	if _, err := stdin.Write(secret); err != nil {
		return fmt.Errorf("write secret: %w", err)
	}
	return stdin.SetWriteDeadline(time.Time{})
}

// drain reads what a cancelled wait still answers, so that its goroutine ends.
func drain(exited <-chan container.WaitResponse, failed <-chan error) {
	select {
	case <-exited:
	case <-failed: //nolint:errcheck // the wait was cancelled
	}
}

// hold and release keep the names of this engine's containers, which tell
// Reap what is not left over.
func (e *Engine) hold(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[name] = struct{}{}
}

func (e *Engine) release(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, name)
}
