//go:build unix

package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func (s *suite) testStart(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e)
	if got := b.hello.Number("protocol"); got != 1 {
		t.Errorf("protocol %d, want 1", got)
	}
	if b.ID() == "" {
		t.Error("the sandbox has no ID")
	}
	other := s.create(t, e)
	if b.ID() == other.ID() {
		t.Error("two sandboxes have the same ID")
	}
	for _, size := range []int{0, 1, 65535, 1 << 20} {
		body := bytes.Repeat([]byte{0, 0xff, '\n', 'x'}, size/4+1)[:size]
		b.ask("echo_request", body)
		if got := b.read(); !bytes.Equal(got.Body, body) || got.Number("id") != b.id {
			t.Errorf("echo of %d bytes came back as %d bytes, header %v", size, len(got.Body), got.Header)
		}
	}
	got := b.out("import os; print(os.getcwd(), os.listdir('/work'), os.path.exists('/opt/biocage/" + probeFile + "'))")
	if want := "/work [] True"; got != want {
		t.Errorf("working directory, its content, agent: %q, want %q", got, want)
	}
	select {
	case <-b.Done():
		t.Errorf("sandbox ended: %+v", b.Exit())
	default:
	}
}

func (s *suite) testStats(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e)
	stats := func() sandbox.Stats {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		st, err := b.Stats(ctx)
		if err != nil {
			t.Fatalf("stats: %v", err)
		}
		return st
	}
	idle := stats()
	if idle.MemoryBytes <= 0 {
		t.Errorf("memory %d, want more than 0", idle.MemoryBytes)
	}
	b.ask("eval_request", []byte("import time\nx = b'x' * (64 << 20)\nprint(sum(range(3000000)))\ntime.sleep(120)"))
	eventually(t, patience, func() string {
		if grown := stats().MemoryBytes - idle.MemoryBytes; grown < 48<<20 {
			return fmt.Sprintf("memory grew by %d bytes while 64 MiB were used", grown)
		}
		return ""
	})
	busy := stats()
	if idle.CPU >= 0 && busy.CPU <= idle.CPU {
		t.Errorf("CPU time %v after %v", busy.CPU, idle.CPU)
	}
	if idle.PIDs >= 0 && busy.PIDs < 2 {
		t.Errorf("%d processes, want at least 2", busy.PIDs)
	}
	closeBox(t, b)
	if _, err := b.Stats(context.Background()); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("stats of a closed sandbox: %v, want ErrClosed", err)
	}
}

func (s *suite) testSpecRefused(t *testing.T, e sandbox.Engine) {
	spec := s.spec()
	spec.Limits = sandbox.Limits{}
	_, err := e.Create(context.Background(), spec)
	if _, ok := errors.AsType[*sandbox.SpecError](err); !ok {
		t.Errorf("create without limits: %v, want a SpecError", err)
	}
}

func (s *suite) testRootMissing(t *testing.T, e sandbox.Engine) {
	spec := s.spec()
	if s.Root.Dir != "" {
		spec.Root.Dir = filepath.Join(t.TempDir(), "none")
	}
	if s.Root.Image != "" {
		spec.Root.Image = "biocage-suite-no-such-image:none"
	}
	_, err := e.Create(context.Background(), spec)
	if !errors.Is(err, sandbox.ErrRootMissing) {
		t.Errorf("create without environment: %v, want ErrRootMissing", err)
	}
}

func (s *suite) testEnvironment(t *testing.T, e sandbox.Engine) {
	const canary = "biocage-suite-canary-5c1f"
	t.Setenv("BIOCAGE_SUITE_CANARY", canary)
	b := s.create(t, e)
	got := b.out(`
import os
for k, v in os.environ.items():
    print(k + "=" + v)
for pid in os.listdir("/proc"):
    if pid.isdigit():
        for name in ("environ", "cmdline"):
            try: print("#", open("/proc/%s/%s" % (pid, name), "rb").read())
            except OSError: pass
`)
	if strings.Contains(got, canary) {
		t.Errorf("the server's environment is seen inside:\n%s", got)
	}
	// What a shell or libc makes by itself says nothing of the host; the name
	// of the host must be the sandbox's.
	allowed := append(Env(), "HOSTNAME=sandbox", "PWD=/work", "LC_CTYPE=C.UTF-8")
	for line := range strings.Lines(got) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") && !slices.Contains(allowed, line) {
			t.Errorf("unexpected variable %q", line)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if inside := b.out("import socket; print(socket.gethostname())"); inside == host {
		t.Errorf("the host's name %q is seen inside", host)
	}
}

func (s *suite) testMounts(t *testing.T, e sandbox.Engine) {
	dir := t.TempDir()
	for _, name := range []string{"ro", "rw"} {
		sub := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(sub, 0o777), os.Chmod(sub, 0o777), os.WriteFile(filepath.Join(sub, "in"), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b := s.create(t, e, func(spec *sandbox.Spec) {
		spec.Mounts = []sandbox.Mount{
			{Host: filepath.Join(dir, "ro"), Sandbox: "/data/ro"},
			{Host: filepath.Join(dir, "rw"), Sandbox: "/data/rw", Mode: sandbox.ReadWrite},
		}
	})
	got := b.out(`
for name in "ro", "rw":
    print(open("/data/%s/in" % name).read())
    try:
        open("/data/%s/out" % name, "w").write("w")
        print("written")
    except OSError as e:
        print("refused")
`)
	if want := "ro\nrefused\nrw\nwritten"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "rw", "out")); err != nil {
		t.Errorf("what was written is not on the host: %v", err)
	}
}
