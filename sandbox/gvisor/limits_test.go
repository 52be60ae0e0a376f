//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func TestCPULimit(t *testing.T) {
	e := testEngine(t, nil)
	if e.tree == nil {
		skip(t, "no control groups")
	}
	spec := testSpec(t)
	spec.Limits.CPUs = 0.3
	k := start(t, e, spec)
	used := func() time.Duration {
		stats, err := k.box.Stats(t.Context())
		if err != nil || stats.CPU < 0 {
			t.Fatalf("stats %+v: %v", stats, err)
		}
		return stats.CPU
	}
	before, begin := used(), time.Now()
	k.eval("[sum(range(30000)) for end in [__import__('time').monotonic() + 2] for _ in iter(lambda: __import__('time').monotonic() < end, False)] and 0")
	cpu, wall := used()-before, time.Since(begin)
	if cpu > wall*6/10 {
		t.Errorf("it used %v of processor time in %v, with 0.3 processors", cpu, wall)
	}
}

func TestPinCPUs(t *testing.T) {
	var all, now unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	for _, n := range []int{all.Count() + 1, 1} {
		if err := pinCPUs(cmd.Process.Pid, n); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedGetaffinity(cmd.Process.Pid, &now); err != nil {
			t.Fatal(err)
		}
		if want := min(n, all.Count()); now.Count() != want {
			t.Errorf("%d processors, want %d", now.Count(), want)
		}
	}
}

// TestEngineClose: a closed engine has ended its sandboxes and makes no more.
func TestEngineClose(t *testing.T) {
	e := testEngine(t, nil)
	k := start(t, e, testSpec(t))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-k.box.Done():
	default:
		t.Error("the sandbox lives on")
	}
	if _, err := e.Create(t.Context(), testSpec(t)); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("create: %v, want ErrClosed", err)
	}
	if _, err := k.box.Stats(t.Context()); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("stats: %v, want ErrClosed", err)
	}
	if left, err := os.ReadDir(e.opts.RunDir); err != nil || len(left) > 0 {
		t.Errorf("left in the run directory: %v (%v)", left, err)
	}
}

func TestRefusals(t *testing.T) {
	e := testEngine(t, nil)
	for _, c := range []struct {
		name   string
		change func(*sandbox.Spec)
		want   error
	}{
		{"an image", func(s *sandbox.Spec) { s.Root = sandbox.Root{Image: "x"} }, sandbox.ErrRootMissing},
		{"no such environment", func(s *sandbox.Spec) { s.Root.Dir = "/nowhere" }, sandbox.ErrRootMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := testSpec(t)
			c.change(&spec)
			if _, err := e.Create(t.Context(), spec); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	spec := testSpec(t)
	spec.Limits.CPUs = 0
	var fault *sandbox.SpecError
	if _, err := e.Create(t.Context(), spec); !errors.As(err, &fault) {
		t.Errorf("an impossible limit: %v", err)
	}
}
