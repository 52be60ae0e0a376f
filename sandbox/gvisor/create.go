//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// killAgain is the time between looks at the processes of a start that was
// given up.
const killAgain = 100 * time.Millisecond

// Create implements sandbox.Engine.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	// gVisor waits in vain for a root that is a link.
	if spec.Root.Dir != "" {
		if dir, err := filepath.EvalSymlinks(spec.Root.Dir); err == nil {
			spec.Root.Dir = dir
		}
	}
	if err := e.accepts(spec); err != nil {
		return nil, err
	}
	id, err := newIdentity()
	if err != nil {
		return nil, fmt.Errorf("choose the sandbox's users: %w: %w", sandbox.ErrUnavailable, err)
	}
	b, err := e.start(ctx, spec, id)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// accepts refuses what this engine cannot do before anything is made.
func (e *Engine) accepts(spec sandbox.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if spec.Root.Dir == "" {
		return fmt.Errorf("gVisor needs a root file system in a directory, not an image; build one with biocage env build: %w", sandbox.ErrRootMissing)
	}
	return errors.Join(enoughFiles(), checkRoot(spec))
}

// start makes the sandbox in a goroutine of its own, because gVisor knows no
// contexts; when ctx ends first, its processes are killed, which ends it.
func (e *Engine) start(ctx context.Context, spec sandbox.Spec, id identity) (*box, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, fmt.Errorf("create a sandbox: %w", sandbox.ErrClosed)
	}
	e.making.Add(1)
	e.mu.Unlock()

	s := &starter{engine: e, id: randomName(sandboxPrefix)}
	type result struct {
		box *box
		err error
	}
	made := make(chan result, 1)
	go func() {
		defer e.making.Done()
		b, err := s.run(ctx, spec, id)
		made <- result{b, err}
	}()
	select {
	case r := <-made:
		return r.box, r.err
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	killErr, r := e.killParts(s.id), result{}
	again := time.NewTicker(killAgain)
	defer again.Stop()
	for over := false; !over; {
		select {
		case r = <-made:
			over = true
		case <-again.C: // a process may have been started since
			killErr = e.killParts(s.id)
		}
	}
	if r.box != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		killErr = errors.Join(killErr, r.box.Close(ctx))
	}
	return nil, errors.Join(fmt.Errorf("create a sandbox: %w", cause), killErr)
}

// killParts ends the host processes of one sandbox.
func (e *Engine) killParts(id string) error {
	pids, err := findParts(e.inst.state())
	if err != nil {
		return err
	}
	var mine []int
	for _, pid := range pids {
		if argvEndsIn(pid, id) {
			mine = append(mine, pid)
		}
	}
	return killAll(mine)
}

// A starter holds what a sandbox is made of until a box owns it.
type starter struct {
	engine *Engine
	id     string

	bundle *bundle
	group  *cgroup
	host   net.Conn
	guest  *os.File
	uplink *uplink // nil: no network
	cont   *container.Container
}

func (s *starter) run(ctx context.Context, spec sandbox.Spec, id identity) (*box, error) {
	b, err := s.make(ctx, spec, id)
	if err == nil {
		return b, nil
	}
	s.engine.log.DebugContext(ctx, "sandbox not started", "error", err) // a fault's text has no details
	err = classifyError(err)
	if left := s.undo(); left != nil {
		err = errors.Join(err, left)
	}
	return nil, fmt.Errorf("create a sandbox: %w", err)
}

func (s *starter) make(ctx context.Context, spec sandbox.Spec, id identity) (*box, error) {
	if err := s.prepare(spec, id); err != nil {
		return nil, err
	}
	if err := s.newContainer(); err != nil {
		return nil, err
	}
	// Nothing of the sandbox's user runs yet.
	if err := errors.Join(s.confine(), s.attachAll(ctx)); err != nil {
		return nil, err
	}
	if s.uplink != nil {
		if err := s.connect(); err != nil {
			return nil, err
		}
	}
	b, err := newBox(s)
	if err != nil {
		return nil, err
	}
	if err := s.cont.Start(s.startConfig()); err != nil {
		return nil, errors.Join(err, b.pidfd.Close())
	}
	if b.group == nil {
		b.measure()
	}
	if !s.engine.adopt(b) {
		return nil, errors.Join(sandbox.ErrClosed, b.pidfd.Close())
	}
	b.watch()
	return b, nil
}

// prepare makes all that gVisor starts from.
func (s *starter) prepare(spec sandbox.Spec, id identity) error {
	e := s.engine
	s.bundle = &bundle{dir: e.inst.sandboxDir(s.id), spec: spec, id: id, worker: workerFor(spec, id), live: e.live && id.pair}
	if err := s.bundle.write(); err != nil {
		return err
	}
	var err error
	if e.tree != nil {
		if s.group, err = e.tree.create(s.id, spec.Limits); err != nil {
			return err
		}
	}
	if spec.Network == sandbox.NetworkFull {
		if s.uplink, err = startUplink(e.inst.state(), s.id, id); err != nil {
			return err
		}
		s.uplink.watch()
	}
	s.host, s.guest, err = newChannel()
	return err
}

// newContainer starts the sandbox's two host processes; no user code yet.
func (s *starter) newContainer() error {
	spec, err := specutils.ReadSpec(s.bundle.dir, s.engine.conf)
	if err != nil {
		return err
	}
	restore, err := stdio.hide()
	if err != nil {
		return err
	}
	cont, err := container.New(s.engine.conf, container.Args{
		ID: s.id, Spec: spec, BundleDir: s.bundle.dir,
		Attached:  true, // the kernel ends both when this process ends
		PassFiles: map[int]*os.File{guestChannel: s.guest},
	})
	s.cont = cont
	return errors.Join(err, restore(), s.guest.Close())
}

// undo removes what a failed start left. gVisor has killed its own processes.
func (s *starter) undo() error {
	var errs []error
	if s.cont != nil {
		errs = append(errs, s.cont.Destroy())
	}
	if s.uplink != nil {
		errs = append(errs, s.uplink.close())
	}
	if s.host != nil {
		errs = append(errs, s.host.Close())
		_ = s.guest.Close() // closed already, but for a start that failed early
	}
	if s.group != nil {
		errs = append(errs, s.group.remove())
	}
	return errors.Join(append(errs, os.RemoveAll(s.bundle.dir))...)
}

// adopt makes the engine own a box, unless the engine was closed meanwhile.
func (e *Engine) adopt(b *box) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.boxes[b.id] = b
	return true
}

func (e *Engine) forget(b *box) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.boxes, b.id)
}

// workerFor: a worker of its own needs a host id of its own wherever it
// touches host files; with one id to give, only a sandbox without host files
// can have one.
func workerFor(spec sandbox.Spec, id identity) uint32 {
	if id.pair || len(spec.Mounts) == 0 {
		return guestWorker
	}
	return guestRoot
}

// classifyError gives gVisor's error, which is mostly text, a class.
func classifyError(err error) error {
	switch {
	case isExhausted(err):
		return fmt.Errorf("%w: %w", sandbox.ErrExhausted, err)
	case errors.Is(err, sandbox.ErrClosed), errors.Is(err, sandbox.ErrUnsupported), errors.Is(err, fs.ErrNotExist):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	return &sandbox.FaultError{Class: sandbox.ErrUnavailable, Text: "gVisor started no sandbox; run biocage doctor on the server's machine, which finds out why", Err: err}
}

func isExhausted(err error) bool {
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.EDQUOT} {
		if errors.Is(err, errno) || strings.Contains(err.Error(), errno.Error()) {
			return true
		}
	}
	return false
}
