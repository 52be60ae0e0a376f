//go:build linux

package attacks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/biocypher/biocage-mcp/internal/remains"
)

// check looks at the host.
func (r *round) check(ctx context.Context, c hostCheck) error {
	switch c.Check {
	case "host_canary_unchanged":
		r.canaryUnchanged()
	case "host_file_unchanged":
		return r.fileUnchanged(c.Path)
	case "host_missing":
		if _, err := os.Lstat(c.Path); !errors.Is(err, fs.ErrNotExist) {
			r.faultf("%s is there (%v)", c.Path, err)
		}
	case "host_no_new_files":
		return r.noNewFiles(c.Dirs)
	case "container_procs_max":
		return r.procsMax(ctx, c)
	case "idle_cpu_pct_max":
		return r.idleCPU(ctx, c)
	case "containers_max":
		return r.containersMax(ctx, c)
	case "no_container_within_s":
		return r.gone(ctx, c)
	default:
		return notRun("the check %q is not known", c.Check)
	}
	return nil
}

func (r *round) canaryUnchanged() {
	text, err := os.ReadFile(r.lab.fill["HOST_CANARY_PATH"])
	if err != nil || string(text) != r.lab.canary {
		r.faultf("the canary on the host was changed: %q, %v", text, err)
	}
	if _, err := os.Lstat(r.lab.fill["HOST_MARK"]); !errors.Is(err, fs.ErrNotExist) {
		r.faultf("the mark on the host was made (%v)", err)
	}
}

func (r *round) fileUnchanged(path string) error {
	want, known := r.files[path]
	if !known {
		return notRun("nobody made %s", path)
	}
	now, err := look(path)
	if err == nil && now != want {
		r.faultf("%s was changed: %+v, and was %+v", path, now, want)
	}
	return err
}

// facts are what an attack could change of a file.
type facts struct {
	content   string
	mode      fs.FileMode
	modified  int64
	links     uint64
	uid, gid  uint32
	extra     int // bytes of names of extended attributes
	directory bool
}

func look(path string) (facts, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return facts{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return facts{}, err
	}
	extra, err := syscall.Listxattr(path, nil)
	if err != nil && !errors.Is(err, syscall.ENOTSUP) {
		return facts{}, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	links := uint64(stat.Nlink) //nolint:unconvert // it has 32 bits on arm64
	return facts{string(text), info.Mode(), info.ModTime().UnixNano(), links, stat.Uid, stat.Gid, max(extra, 0), info.IsDir()}, nil
}

// snapshot lists what is in a directory.
func snapshot(dir string) (map[string]bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, e := range entries {
		found[e.Name()] = true
	}
	return found, nil
}

// noNewFiles compares directories with what was in them before. In those for
// temporary files others are busy too: there only the names count that the
// attack used.
func (r *round) noNewFiles(dirs []string) error {
	for _, dir := range dirs {
		now, err := snapshot(dir)
		if err != nil {
			return err
		}
		before, known := r.before[dir]
		if !known {
			return notRun("nobody looked into %s before the attack", dir)
		}
		shared := dir == filepath.Clean(os.TempDir()) || strings.HasSuffix(dir, "/tmp")
		for name := range now {
			if !before[name] && (!shared || r.names[name]) {
				r.faultf("there is a new file %s on the host", filepath.Join(dir, name))
			}
		}
	}
	return nil
}

// procsMax counts the processes in the sandbox, as a new run in it sees them.
func (r *round) procsMax(ctx context.Context, c hostCheck) error {
	most, ok := c.Value.(float64)
	if !ok {
		return notRun("container_procs_max without a number")
	}
	time.Sleep(time.Duration(c.AfterS * float64(time.Second)))
	o, err := r.a.run(ctx, "import os\nprint(sum(p.isdigit() for p in os.listdir('/proc')))", 0)
	if err != nil {
		return err
	}
	if n, ok := firstNumber(o.Object.Stdout); !ok || n > most {
		r.faultf("there are %q processes in the sandbox, more than %g: %s", o.Object.Stdout, most, o.brief())
	}
	return nil
}

// idleCPU measures what the sandbox uses while nobody calls.
func (r *round) idleCPU(ctx context.Context, c hostCheck) error {
	most, ok := c.Value.(float64)
	if !ok {
		return notRun("idle_cpu_pct_max without a number")
	}
	time.Sleep(time.Duration(c.AfterS * float64(time.Second)))
	before, err := r.a.cpuSeconds(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	time.Sleep(3 * time.Second)
	after, err := r.a.cpuSeconds(ctx)
	if err != nil {
		return err
	}
	percent := 100 * (after - before) / time.Since(begin).Seconds()
	r.notef("idle CPU %.0f %%", percent)
	if percent > most*1.05 { // the kernel's periods are not exact
		r.faultf("the idle sandbox uses %.0f %% CPU, more than %g", percent, most)
	}
	return nil
}

func (r *round) containersMax(ctx context.Context, c hostCheck) error {
	most := float64(maxSessions)
	if value, ok := c.Value.(float64); ok {
		most = value
	}
	n, err := r.a.sandboxes(ctx)
	if err != nil {
		return err
	}
	if float64(n) > most {
		r.faultf("there are %d sandboxes, more than %g", n, most)
	}
	return nil
}

// watch remembers what belongs to the server, for gone.
func (r *round) watch(ctx context.Context) error {
	if err := r.a.learn(ctx); err != nil {
		return err
	}
	r.watched = remains.New(remains.Options{
		PID: r.a.PID(), Docker: r.a.engine == "docker", Env: r.lab.env, Dirs: []string{"/run/biocage"},
	})
	r.watched.Note(r.a.sandbox)
	return r.watched.Look(ctx)
}

// gone waits until nothing is left of a server that has ended.
func (r *round) gone(ctx context.Context, c hostCheck) error {
	seconds, ok := c.Value.(float64)
	if !ok || r.watched == nil {
		return notRun("no_container_within_s without a number, or while the server lives")
	}
	left, took, err := r.watched.Gone(ctx, time.Duration(seconds*float64(time.Second)))
	if err != nil {
		return err
	}
	procs, boxes := r.watched.Seen()
	live := slices.DeleteFunc(slices.Clone(left), onlyName)
	if len(live) > 0 {
		r.faultf("left after %s: %s", took.Round(time.Millisecond), strings.Join(live, "; "))
	} else {
		r.notef("%d processes and %d sandboxes were gone after at most %.1f s", procs, boxes, took.Seconds())
	}
	if len(left) == len(live) {
		return nil
	}
	r.notef("left for the next server: %s", strings.Join(slices.DeleteFunc(left, func(s string) bool { return !onlyName(s) }), "; "))
	if _, err := r.client(ctx, ""); err != nil {
		return err
	}
	if left, took, err = r.watched.Gone(ctx, sweepTime); err == nil && len(left) > 0 {
		r.faultf("left %s after the start of the next server: %s", took.Round(time.Millisecond), strings.Join(left, "; "))
	}
	return err
}

// sweepTime is how soon after its start a server has removed what another left.
const sweepTime = 20 * time.Second

// onlyName tells whether what is left is an empty name.
func onlyName(left string) bool {
	return strings.HasPrefix(left, "directory ") || strings.HasPrefix(left, "control group ")
}

// diskFree is the free space of the file system that holds the server's data.
func diskFree() (float64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs("/var/lib", &s); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	return float64(s.Bavail) * float64(s.Bsize) / (1 << 20), nil
}
