package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biocypher/biocage-mcp/pyagent"
	"github.com/biocypher/biocage-mcp/sandbox"
)

const (
	closeTimeout = 20 * time.Second
	lease        = time.Minute // of the supervisor; renewed three times within it
	spoolBytes   = 64 << 20    // kept of one stream of one cell, inside the sandbox
)

// A kernel is one sandbox with a live interpreter in it. Whoever started it
// must close it.
type kernel struct {
	sandbox sandbox.Sandbox
	conn    *pyagent.Conn
	log     *slog.Logger
	python  string
	spool   int64  // bytes kept of one whole text
	drop    func() // gives back what the sandbox was promised

	gone     chan struct{} // closed when the kernel can no longer be used
	goneOnce sync.Once
	why      error // valid after gone

	oomSeen atomic.Int64 // memory kills that an answer has told

	closeOnce sync.Once
	closeErr  error
	closed    chan struct{}
}

// startKernel makes a sandbox and waits until code can run in it.
func (m *Manager) startKernel(ctx context.Context, base Base, label string) (_ *kernel, err error) {
	begun := time.Now()
	defer func() { m.watch.SandboxMade(err == nil, time.Since(begun)) }()
	spec := base.Spec
	spec.Session = label
	drop, err := m.promises.give(spec.Limits.MemoryBytes, base.Engine.Capabilities().MachineMemory)
	if err != nil {
		return nil, err
	}
	create, end := m.step(ctx, "sandbox.create")
	sb, err := base.Engine.Create(create, spec)
	end(stepEnd(err))
	if err != nil {
		drop()
		return nil, err
	}
	k := &kernel{
		drop:    drop,
		sandbox: sb, conn: pyagent.NewConn(sb.Stream()), log: m.log,
		gone: make(chan struct{}), closed: make(chan struct{}),
	}
	_, end = m.step(ctx, "agent.start")
	err = m.ready(ctx, k, base)
	end(stepEnd(err))
	if err != nil {
		if ctx.Err() == nil { // else nothing happened to the sandbox: we gave it up
			err = k.explain(err)
		}
		return nil, errors.Join(err, k.close(context.WithoutCancel(ctx)))
	}
	return k, nil
}

// ready waits until code can run. The lease counts from the start request, and
// loading the libraries may take longer on a busy machine, so it is kept
// from then on.
func (m *Manager) ready(ctx context.Context, k *kernel, base Base) error {
	info, err := k.conn.Hello(ctx)
	if err != nil {
		return fmt.Errorf("wait for the agent: %w", err)
	}
	k.python = info.Python
	k.spool = min(spoolBytes, base.Spec.Limits.DiskBytes/4)
	m.spawn(func() { k.watch(m.life) })
	reply, err := k.conn.Start(ctx, pyagent.StartRequest{
		Preload:     base.Preload,
		MemoryBytes: base.Spec.Limits.MemoryBytes,
		LeaseMS:     lease.Milliseconds(),
		Workspace:   sandbox.WorkDir,
		Temp:        sandbox.TempDir,
		SpoolBytes:  k.spool,
		Packages:    base.Packages,
		Network:     base.Spec.Network != sandbox.NetworkNone,
		Wipe:        []string{sandbox.ShmDir},
	})
	if err != nil {
		return fmt.Errorf("start the interpreter: %w", err)
	}
	if len(reply.Failed) > 0 {
		k.log.WarnContext(ctx, "modules of the environment could not be preloaded", slog.Any("modules", reply.Failed))
	}
	return nil
}

// watch keeps the lease and notices the kernel's end; closing the kernel ends
// the connection and so this too.
func (k *kernel) watch(ctx context.Context) {
	if err := k.conn.KeepAlive(ctx, lease/3); err != nil {
		k.markGone(err)
	}
}

// markGone records why the kernel cannot be used any more.
func (k *kernel) markGone(why error) {
	k.goneOnce.Do(func() {
		k.why = k.explain(why)
		close(k.gone)
	})
}

// explain adds what the engine saw of the sandbox's end to the connection's
// view of it.
func (k *kernel) explain(err error) error {
	select {
	case <-k.sandbox.Done():
		exit := k.sandbox.Exit()
		return &exitError{exit: exit, err: err}
	case <-time.After(2 * time.Second): // the stream ends a little before the sandbox
		return err
	}
}

// An exitError: the sandbox itself has ended.
type exitError struct {
	exit sandbox.Exit
	err  error
}

func (e *exitError) Error() string {
	if e.exit.OOMKilled {
		return "the sandbox was killed by its memory limit"
	}
	if e.exit.Reason != "" {
		return "the sandbox ended: " + e.exit.Reason
	}
	return fmt.Sprintf("the sandbox ended with code %d", e.exit.Code)
}

func (e *exitError) Unwrap() error { return e.err }

// healthy tells whether the kernel answers now.
func (k *kernel) healthy(ctx context.Context) bool {
	select {
	case <-k.gone:
		return false
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := k.conn.Ping(ctx)
	return err == nil
}

// close ends the sandbox; it may be called more than once.
func (k *kernel) close(ctx context.Context) error {
	k.closeOnce.Do(func() {
		defer close(k.closed)
		defer k.drop()
		ctx, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		k.closeErr = k.sandbox.Close(ctx)
		if err := k.conn.Close(); err != nil {
			k.log.DebugContext(ctx, "agent stream", slog.Any("error", err))
		}
		k.goneOnce.Do(func() {
			k.why = sandbox.ErrClosed
			close(k.gone)
		})
	})
	<-k.closed
	return k.closeErr
}
