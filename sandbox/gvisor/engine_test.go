//go:build linux && (amd64 || arm64)

package gvisor

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// testRootfs is a root file system with python3, or the reason to skip.
func testRootfs(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("BIOCAGE_TEST_ROOTFS")
	if dir == "" {
		skip(tb, "BIOCAGE_TEST_ROOTFS names no root file system with python3")
	}
	return dir
}

func skip(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

func testEngine(tb testing.TB, change func(*Options)) *Engine {
	tb.Helper()
	opts := Options{RunDir: filepath.Join(openDir(tb), "r")}
	if os.Getenv("BIOCAGE_TEST_DEBUG") != "" {
		opts.Logger = slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if change != nil {
		change(&opts)
	}
	e, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error("close the engine:", err)
		}
	})
	if err := e.Check(tb.Context()); err != nil {
		skip(tb, err.Error())
	}
	return e
}

func testSpec(tb testing.TB) sandbox.Spec {
	tb.Helper()
	agent, err := filepath.Abs("testdata")
	if err != nil {
		tb.Fatal(err)
	}
	return sandbox.Spec{
		Root: sandbox.Root{Dir: testRootfs(tb)}, Session: "test", Agent: agent,
		Command: []string{"/usr/bin/python3", "-I", sandbox.AgentDir + "/echo.py"},
		Env:     []string{"PATH=/usr/bin:/bin", "HOME=/work"},
		Limits:  sandbox.Limits{MemoryBytes: 512 << 20, CPUs: 2, PIDs: 64, DiskBytes: 32 << 20},
	}
}

// talker evaluates expressions in a sandbox.
type talker struct {
	t   testing.TB
	box sandbox.Sandbox
	in  *bufio.Reader
}

func start(tb testing.TB, e *Engine, spec sandbox.Spec) *talker {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	box, err := e.Create(ctx, spec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := box.Close(context.WithoutCancel(ctx)); err != nil {
			tb.Error("close the sandbox:", err)
		}
	})
	k := &talker{t: tb, box: box, in: bufio.NewReader(box.Stream())}
	if hello := k.line(); !strings.HasPrefix(hello, "ready ") {
		tb.Fatalf("the agent said %q first", hello)
	}
	return k
}

func (k *talker) line() string {
	k.t.Helper()
	line, err := k.in.ReadString('\n')
	if err != nil {
		k.t.Fatalf("the agent is silent: %v", err)
	}
	return strings.TrimSpace(line)
}

func (k *talker) eval(format string, args ...any) string {
	k.t.Helper()
	if _, err := fmt.Fprintf(k.box.Stream(), format+"\n", args...); err != nil {
		k.t.Fatal(err)
	}
	return k.line()
}

func TestSandboxAnswers(t *testing.T) {
	k := start(t, testEngine(t, nil), testSpec(t))
	for _, c := range []struct{ code, want string }{
		{"1+1", "2"},
		{"os.getuid()", "1000"},
		{"os.getpid()", "1"},
		{"os.getcwd()", "'/work'"},
		{"os.uname().nodename", "'biocage'"},
		{"open('/work/x','w').write('x')", "1"},
		{"open('/etc/x','w')", "PermissionError: [Errno 13] Permission denied: '/etc/x'"},
		{"open('/data/x','w')", "PermissionError: [Errno 13] Permission denied: '/data/x'"},
	} {
		if got := k.eval("%s", c.code); got != c.want {
			t.Errorf("%s = %s, want %s", c.code, got, c.want)
		}
	}
}

// An environment's directory is often reached by a link to the one in force.
func TestRootMayBeALink(t *testing.T) {
	spec := testSpec(t)
	link := filepath.Join(t.TempDir(), "current")
	if err := os.Symlink(spec.Root.Dir, link); err != nil {
		t.Fatal(err)
	}
	spec.Root.Dir = link
	if got := start(t, testEngine(t, nil), spec).eval("1 + 1"); got != "2" {
		t.Errorf("got %s", got)
	}
}
