//go:build linux

package attacks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how much longer than its limit a run may take before its answer
// counts as lost.
const patience = 90 * time.Second

// stepsTime bounds the repetitions of one step.
const stepsTime = 2 * time.Minute

// adapt translates the corpus's names into the contract's.
func adapt(args map[string]any) map[string]any {
	adapted := maps.Clone(args)
	for from, to := range map[string]string{"timeout": "timeout_seconds", "session_id": "session"} {
		if value, there := adapted[from]; there {
			delete(adapted, from)
			adapted[to] = value
		}
	}
	if code, ok := adapted["code"].(string); ok {
		adapted["code"] = strings.ReplaceAll(code, "'/mnt/", "'/data/")
	}
	return adapted
}

// run runs code to its end, also where the end comes after the first answer.
func (c *client) run(ctx context.Context, code string, timeout float64) (outcome, error) {
	args := map[string]any{"code": code}
	if timeout > 0 {
		args["timeout_seconds"] = timeout
	}
	return c.call(ctx, "python_run", args)
}

func (c *client) call(ctx context.Context, tool string, args map[string]any) (outcome, error) {
	limit := patience
	if seconds, ok := args["timeout_seconds"].(float64); ok && seconds > 0 && seconds < 600 {
		limit += time.Duration(seconds * float64(time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := time.Now()
	a, err := c.Tool(ctx, tool, args)
	for err == nil && a.Object.Status == "running" {
		a, err = c.Tool(ctx, "python_wait", map[string]any{"run_id": a.Object.RunID})
	}
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w", tool, err)
	}
	return outcome{a, time.Since(begin)}, nil
}

// alive sees that the session answers 42, with a reset before if that is
// allowed and needed.
func (c *client) alive(ctx context.Context, within time.Duration, reset bool) (outcome, error) {
	o, err := c.run(ctx, "print(6*7)", 0)
	works := func() bool { return err == nil && strings.TrimSpace(o.Object.Stdout) == "42" && !o.Refused() }
	if !works() && reset {
		if _, err := c.call(ctx, "session_reset", map[string]any{}); err != nil {
			return outcome{}, err
		}
		o, err = c.run(ctx, "print(6*7)", 0)
	}
	switch {
	case err != nil:
		return o, fmt.Errorf("the next call has no answer: %w", err)
	case !works():
		return o, fmt.Errorf("the next call does not answer 42: %s; stdout %.200q", o.brief(), o.Object.Stdout)
	case o.took > within:
		return o, fmt.Errorf("the next call took %.1f s, more than %g", o.took.Seconds(), within.Seconds())
	}
	return o, nil
}

// steps does what comes before or after an attack.
func (r *round) steps(ctx context.Context, steps []step) error {
	for i, s := range steps {
		if err := r.step(ctx, s); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *round) step(ctx context.Context, s step) error {
	switch {
	case s.Host != "":
		return r.onHost(s)
	case s.Check != "":
		return r.check(ctx, s.hostCheck)
	case s.Tool == "":
		return notRun("a step has neither a tool nor a check")
	}
	c, err := r.client(ctx, s.Session)
	if err != nil {
		return err
	}
	r.exposed = r.exposed || s.Tool == "file_expose"
	end := time.Now().Add(stepsTime)
	for i := range max(s.Repeat, 1) {
		if time.Now().After(end) {
			r.notef("%s was repeated %d of %d times in %s", s.Tool, i, s.Repeat, stepsTime)
			break
		}
		if s.Must.ServerRSSMiBMax != nil {
			if err := forgetPeak(c.PID()); err != nil {
				return err
			}
		}
		o, err := c.call(ctx, s.Tool, adapt(s.Args))
		if err != nil {
			return err
		}
		if s.Must.Info {
			r.notef("%s: %s", s.Tool, o.brief())
			continue
		}
		if s.Repeat <= 1 {
			r.notef("%s: %s", s.Tool, o.brief())
		}
		r.answer(s.Must, o)
		if err := r.memory(s.Must, c); err != nil {
			return err
		}
	}
	return nil
}

// memory judges the server's peak.
func (j *judge) memory(m must, c *client) error {
	if m.ServerRSSMiBMax == nil {
		return nil
	}
	peak, err := peakMiB(c.PID())
	if err == nil && peak > *m.ServerRSSMiBMax {
		j.faultf("the server used %.0f MiB, more than %g", peak, *m.ServerRSSMiBMax)
	}
	return err
}

// onHost makes what a step wants on the host.
func (r *round) onHost(s step) error {
	r.cleanup = append(r.cleanup, func() error { return os.RemoveAll(s.Path) })
	path := s.Path
	switch s.Host {
	case "mkfile":
		if err := os.WriteFile(path, []byte("the host's own content\n"), 0o666); err != nil {
			return err
		}
		made, err := look(path)
		r.files[path] = made
		return err
	case "mkdir":
		if err := os.MkdirAll(path, 0o777); err != nil {
			return err
		}
		return os.Chmod(path, 0o777)
	case "symlink":
		return os.Symlink(strings.TrimPrefix(s.A, "symlink:"), path)
	case "fifo", "mkfifo":
		return syscall.Mkfifo(path, 0o666)
	case "socket":
		listener, err := net.Listen("unix", path)
		if err == nil {
			r.cleanup = append(r.cleanup, listener.Close)
		}
		return err
	case "swap_loop":
		return r.swap(path, s.A, s.B)
	}
	return notRun("a step wants %q on the host, which is not known", s.Host)
}

// swap lets path be now the one thing, now the other, without a pause.
func (r *round) swap(path string, kinds ...string) error {
	var things []string
	for i, kind := range kinds {
		thing := fmt.Sprintf("%s.%d", path, i)
		var err error
		switch target, link := strings.CutPrefix(kind, "symlink:"); {
		case link:
			err = os.Symlink(target, thing)
		case kind == "dir":
			err = os.Mkdir(thing, 0o777)
		case kind == "file":
			err = os.WriteFile(thing, []byte("harmless\n"), 0o666)
		default:
			err = notRun("the kind %q of a swapped path is not known", kind)
		}
		if err != nil {
			return err
		}
		things = append(things, thing)
		r.cleanup = append(r.cleanup, func() error { return os.RemoveAll(thing) })
	}
	stop := make(chan struct{})
	var loop sync.WaitGroup
	loop.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			thing := things[i%len(things)]
			if os.Rename(thing, path) == nil {
				time.Sleep(time.Duration(i%7) * 50 * time.Microsecond)
				if err := os.Rename(path, thing); err != nil && !errors.Is(err, os.ErrNotExist) {
					return
				}
			}
		}
	})
	r.cleanup = append(r.cleanup, func() error {
		close(stop)
		loop.Wait()
		return nil
	})
	return nil
}

// names are the last parts of the paths that an attack's steps mention.
func names(steps []step) map[string]bool {
	found := map[string]bool{}
	for _, s := range steps {
		if path, ok := s.Args["path"].(string); ok {
			found[filepath.Base(path)] = true
		}
	}
	return found
}
