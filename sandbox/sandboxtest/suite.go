//go:build unix

package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Options say what is tested and what it promises.
type Options struct {
	// New makes an engine; the suite closes it.
	New func() (sandbox.Engine, error)
	// Root is a Linux root file system with python3 (ctypes included).
	Root sandbox.Root
	// PIDs are the host's numbers of the processes of a sandbox, for the view
	// from outside. Nil skips that view.
	PIDs func(s sandbox.Sandbox) ([]int, error)
	// Left lists what engines have left on this host (containers, mounts,
	// directories); the suite compares before and after. Nil skips that.
	Left func() ([]string, error)
	// Dead makes what a dead process would have left, for Reap to find, and
	// gives a word that Left lists it by. Nil skips that.
	Dead func(t *testing.T) string
	// Promise is what the engine's sandboxes keep.
	Promise Promise
}

// A Promise says what this engine's sandboxes keep, where engines differ.
type Promise struct {
	// Caps and Seccomp: every process of a sandbox, seen from the host, has no
	// capabilities and no new privileges; and runs under a seccomp filter.
	Caps, Seccomp bool
	// UID: every sandbox's processes run as a host user of their own, not root.
	UID bool
	// Namespaces, by their names in /proc/PID/ns, are not the host's.
	Namespaces []string
	// MemoryKillsChild: the memory limit kills the process that breaks it and
	// the sandbox lives on. Otherwise the whole sandbox may end by it.
	MemoryKillsChild bool
	// OOMCounted: Stats tells the memory kills of a living sandbox.
	OOMCounted bool
	// InitImmune: signals from inside do not reach the first process.
	InitImmune bool
	// ReadOnlyRoot: the root file system is mounted read-only, whoever asks.
	ReadOnlyRoot bool
	// NoExec: programs cannot be run from the writable places.
	NoExec bool
	// NoSetID: files cannot be given set-user-id bits.
	NoSetID bool
}

// Env is the complete environment of the suite's sandboxes.
func Env() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/work", "LANG=C.UTF-8"}
}

// suite is one run.
type suite struct {
	Options
	agent string
}

// Run tests the engine. The sub-tests run one after another.
func Run(t *testing.T, o Options) {
	s := &suite{Options: o, agent: probeDir(t)}
	for _, test := range []struct {
		name string
		run  func(*testing.T, sandbox.Engine)
	}{
		{"start", s.testStart},
		{"stats", s.testStats},
		{"spec refused", s.testSpecRefused},
		{"root missing", s.testRootMissing},
		{"memory limit", s.testMemory},
		{"process limit", s.testProcesses},
		{"processor limit", s.testProcessors},
		{"disk limit", s.testDisk},
		{"read-only system", s.testReadOnly},
		{"environment", s.testEnvironment},
		{"no network", s.testNoNetwork},
		{"mounts from the start", s.testMounts},
		{"posture", s.testPosture},
		{"kill from inside", s.testKillInside},
		{"close", s.testClose},
		{"stream close", s.testStreamClose},
		{"cancelled create", s.testCancelledCreate},
		{"host killed", s.testHostKilled},
		{"reap", s.testReap},
		{"expose", s.testExpose},
		{"no leak", s.testNoLeak},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := s.left(t)
			engine := s.engine(t)
			t.Cleanup(func() { // after the clean-ups that the test adds
				if err := engine.Close(); err != nil {
					t.Errorf("close engine: %v", err)
				}
				s.nothingNew(t, before)
			})
			test.run(t, engine)
		})
	}
}

func (s *suite) engine(t *testing.T) sandbox.Engine {
	t.Helper()
	engine, err := s.New()
	if err != nil {
		t.Fatalf("make engine: %v", err)
	}
	return engine
}

// spec is what the tests start from.
func (s *suite) spec() sandbox.Spec {
	return sandbox.Spec{
		Root:    s.Root,
		Session: "suite",
		Command: []string{"python3", "-I", sandbox.AgentDir + "/" + probeFile},
		Env:     Env(),
		Agent:   s.agent,
		Limits:  sandbox.Limits{MemoryBytes: 256 << 20, CPUs: 1, PIDs: 64, DiskBytes: 16 << 20},
	}
}

// create starts a sandbox that the test's end closes.
func (s *suite) create(t *testing.T, e sandbox.Engine, change ...func(*sandbox.Spec)) *box {
	t.Helper()
	spec := s.spec()
	for _, c := range change {
		c(&spec)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	made, err := e.Create(ctx, spec)
	if err != nil {
		t.Fatalf("create sandbox: %v", err)
	}
	t.Cleanup(func() { closeBox(t, made) })
	return greet(t, made)
}

// left lists what engines have left; before and after must be the same.
func (s *suite) left(t *testing.T) map[string]bool {
	t.Helper()
	if s.Left == nil {
		return nil
	}
	list, err := s.Left()
	if err != nil {
		t.Fatalf("list what is left: %v", err)
	}
	found := map[string]bool{}
	for _, item := range list {
		found[item] = true
	}
	return found
}

// nothingNew fails when something is left that was not there before.
func (s *suite) nothingNew(t *testing.T, before map[string]bool) {
	t.Helper()
	if s.Left == nil {
		return
	}
	eventually(t, 10*time.Second, func() string {
		for item := range s.left(t) {
			if !before[item] {
				return item + " is left"
			}
		}
		return ""
	})
}

// eventually waits until fault has nothing to say.
func eventually(t *testing.T, within time.Duration, fault func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		text := fault()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Error(text)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// resources counts this process's goroutines and open descriptors.
func resources() (goroutines, descriptors int, detail string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return runtime.NumGoroutine(), -1, ""
	}
	var names []string
	for _, entry := range entries {
		if link, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil {
			names = append(names, link)
		}
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return runtime.NumGoroutine(), len(entries), fmt.Sprintf("%s\n%s", strings.Join(names, "\n"), stacks)
}
