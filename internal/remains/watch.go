package remains

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options say where a server may leave something.
type Options struct {
	// PID is the server's process.
	PID int
	// Docker: containers are looked for too, by the docker command.
	Docker bool
	// Env is the environment of the docker command; nil is this process's own.
	Env []string
	// Dirs are directories in which servers keep what lives as long as they
	// do. An entry is this server's when it is named after its process or
	// holds a file `owner` that does. A directory need not exist.
	Dirs []string
}

// A Watch remembers what belongs to one server.
type Watch struct {
	opts   Options
	seen   map[identity]string // descendants and containers' processes, with their command
	boxes  map[string]bool     // ids of sandboxes
	places map[string]bool     // entries of Dirs
	server identity            // known once it was looked at
	looked bool
}

// An identity names a process for good, as numbers are used again.
type identity struct {
	pid   int
	start string // clock ticks since the boot
}

// New makes a watch for the server that opts tell of.
func New(opts Options) *Watch {
	return &Watch{opts: opts, seen: map[identity]string{}, boxes: map[string]bool{}, places: map[string]bool{}}
}

// Note adds a sandbox's id, as session_info tells it.
func (w *Watch) Note(sandboxID string) {
	if sandboxID != "" {
		w.boxes[sandboxID] = true
	}
}

// Look remembers what the living server owns now. It may be called again, to
// add what came since.
func (w *Watch) Look(ctx context.Context) error {
	if w.opts.Docker {
		ids, err := containers(ctx, w.opts)
		if err != nil {
			return err
		}
		for _, id := range ids {
			w.Note(id)
		}
	}
	all, err := processes()
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.pid == w.opts.PID {
			w.server = p.identity
		}
	}
	if err := w.lookAtPlaces(); err != nil {
		return err
	}
	for _, p := range family(all, w.opts.PID, w.boxes) {
		w.seen[p.identity] = p.command
	}
	w.looked = true
	return nil
}

// Seen tells how many processes and sandboxes the watch knows of.
func (w *Watch) Seen() (procs, boxes int) { return len(w.seen), len(w.boxes) }

// Left tells what is there now, a line for each thing.
func (w *Watch) Left(ctx context.Context) ([]string, error) {
	if !w.looked {
		return nil, errors.New("nothing was looked at while the server lived")
	}
	var left []string
	if w.opts.Docker {
		ids, err := containers(ctx, w.opts)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			left = append(left, "container "+id)
		}
	}
	procs, err := w.leftProcesses()
	if err != nil {
		return nil, err
	}
	if err := w.lookAtPlaces(); err != nil {
		return nil, err
	}
	places := slices.Sorted(maps.Keys(w.places))
	boxes := slices.Sorted(maps.Keys(w.boxes))
	mounts, err := leftMounts(slices.Concat(boxes, places))
	if err != nil {
		return nil, err
	}
	groups, err := leftGroups(boxes)
	if err != nil {
		return nil, err
	}
	return slices.Concat(left, procs, leftPlaces(places), mounts, groups), nil
}

// lookAtPlaces adds the directories' entries that are the server's now: in a
// last moment it may have made one more.
func (w *Watch) lookAtPlaces() error {
	for _, dir := range w.opts.Dirs {
		owned, err := ownedEntries(dir, w.server)
		if err != nil {
			return err
		}
		for _, place := range owned {
			w.places[place] = true
		}
	}
	return nil
}

func (w *Watch) leftProcesses() ([]string, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	known := func(p process) bool {
		_, was := w.seen[p.identity]
		return was || p.pid == w.opts.PID || mentions(p.command, w.boxes)
	}
	var left []string
	for _, p := range all {
		if known(p) && !p.ended {
			left = append(left, fmt.Sprintf("process %d (%s)", p.pid, shorten(p.command)))
		}
	}
	return left, nil
}

// Gone waits until nothing is left, at most for patience, and tells what is
// still there then, and how long it took.
func (w *Watch) Gone(ctx context.Context, patience time.Duration) (left []string, took time.Duration, err error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience+10*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err = w.Left(ctx)
		took = time.Since(begin)
		if err != nil || len(left) == 0 || took > patience {
			return left, took, err
		}
		select {
		case <-ctx.Done():
			return left, took, ctx.Err()
		case <-tick.C:
		}
	}
}

func mentions(command string, ids map[string]bool) bool {
	for id := range ids {
		if strings.Contains(command, id) {
			return true
		}
	}
	return false
}

func shorten(command string) string {
	const most = 120
	if len(command) <= most {
		return command
	}
	return strings.ToValidUTF8(command[:most], "") + "…"
}
