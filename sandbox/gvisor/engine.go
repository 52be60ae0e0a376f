//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/config"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/hostmount"
)

// Engine starts sandboxes by gVisor inside this process. Create it with New,
// once per process.
type Engine struct {
	opts  Options
	log   *slog.Logger
	inst  *instance
	conf  *config.Config
	tree  *cgroupTree // nil: no control groups
	live  bool        // host files can be attached to running sandboxes
	check checkCache

	mu     sync.Mutex
	closed bool            // guarded by mu
	boxes  map[string]*box // guarded by mu
	making sync.WaitGroup  // Creates under way; Add only with mu held
}

var _ sandbox.Engine = (*Engine)(nil)

// New prepares the run directory and sees what this machine allows. It starts
// nothing; Check tells whether sandboxes can run.
func New(opts Options) (*Engine, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := prepareRunDir(opts.RunDir); err != nil {
		return nil, fmt.Errorf("prepare gVisor: %w: %w", sandbox.ErrUnavailable, err)
	}
	redirectLog(context.Background(), opts.Logger) //nolint:forbidigo // only asks for the level
	inst, err := newInstance(opts.RunDir)
	if err != nil {
		return nil, fmt.Errorf("prepare gVisor: %w: %w", sandbox.ErrUnavailable, err)
	}
	conf, err := gvisorConfig(inst.state())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare gVisor: %w", err), os.RemoveAll(inst.dir))
	}
	e := &Engine{opts: opts, log: opts.Logger, inst: inst, conf: conf, boxes: map[string]*box{}, check: checkCache{turn: make(chan struct{}, 1)}}
	e.live = hostmount.Supported() == nil
	if !opts.NoCgroups {
		e.tree = newCgroupTree(inst.groupName())
	}
	return e, nil
}

// Name implements sandbox.Engine.
func (e *Engine) Name() string { return "gvisor" }

// Capabilities implements sandbox.Engine.
func (e *Engine) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{
		Isolation:  "gVisor (systrap)",
		LiveExpose: e.live,
		Network:    true,
		HardMemory: e.tree != nil,

		MachineMemory: machineMemory(),
	}
}

func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// Reap implements sandbox.Engine.
func (e *Engine) Reap(ctx context.Context) (int, error) {
	all, err := instances(e.opts.RunDir)
	if err != nil {
		return 0, fmt.Errorf("look for what dead processes left: %w", err)
	}
	count := 0
	var errs []error
	for _, in := range all {
		if ctx.Err() != nil {
			return count, errors.Join(append(errs, ctx.Err())...)
		}
		if in.name == e.inst.name {
			continue
		}
		dead, err := in.dead(time.Now())
		if err != nil || !dead {
			errs = append(errs, err)
			continue
		}
		n, err := in.remove()
		count += n
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return count, fmt.Errorf("remove what dead processes left: %w", err)
	}
	return count, nil
}

// Close implements sandbox.Engine. Sandboxes that are still there are killed.
func (e *Engine) Close() error {
	e.mu.Lock()
	already := e.closed
	e.closed = true
	left := make([]*box, 0, len(e.boxes))
	for _, b := range e.boxes {
		left = append(left, b)
	}
	e.mu.Unlock()
	if already {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit) //nolint:forbidigo // Close has none
	defer cancel()
	var errs []error
	for _, b := range left {
		errs = append(errs, b.Close(ctx))
	}
	e.making.Wait()
	_, err := e.inst.remove()
	return errors.Join(append(errs, err)...)
}

// remove ends what still runs of an instance and deletes it, with its control
// groups. It tells how many sandboxes it had.
func (in *instance) remove() (int, error) {
	pids, err := findParts(in.state())
	if err != nil {
		return 0, err
	}
	if err := killAll(pids); err != nil {
		return 0, err
	}
	ids, err := in.sandboxes()
	if err != nil {
		return 0, err
	}
	// The directory is the only trace of the groups: it stays while they do, so
	// that the next sweep finds them.
	if err := removeGroups(in.groupName()); err != nil {
		return 0, err
	}
	return len(ids), os.RemoveAll(in.dir)
}

// removeGroups deletes the control groups of an instance wherever they are.
func removeGroups(name string) error {
	var errs []error
	for _, found := range []*cgroupTree{findV1(), findV2()} {
		if found == nil {
			continue
		}
		for _, parent := range found.dirs {
			dir := filepath.Join(parent, name)
			children, err := filepath.Glob(filepath.Join(dir, sandboxPrefix+"*"))
			if err != nil {
				return err
			}
			for _, child := range children {
				g := &cgroup{dirs: map[string]string{"": child}}
				errs = append(errs, g.remove())
			}
			errs = append(errs, removeDirs(map[string]string{"": dir}))
		}
	}
	return errors.Join(errs...)
}
