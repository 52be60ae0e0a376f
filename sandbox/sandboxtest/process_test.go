//go:build unix

package sandboxtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func processBox(t *testing.T, command ...string) *box {
	t.Helper()
	engine := &Process{Dir: t.TempDir()}
	if err := engine.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	s := &suite{agent: probeDir(t)}
	return s.create(t, engine, func(spec *sandbox.Spec) {
		if len(command) > 0 {
			spec.Command = command
		}
	})
}

func TestProcess(t *testing.T) {
	b := processBox(t)
	home := filepath.Dir(b.Sandbox.(*ProcessSandbox).Workspace())
	if got, want := b.out("import os; print(os.getcwd(), os.environ['HOME'])"), home+"/work "+home+"/work"; got != want {
		t.Errorf("directory and HOME %q, want %q", got, want)
	}
	stats, err := b.Stats(t.Context())
	if err != nil || stats.MemoryBytes < 1<<20 || stats.PIDs < 1 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	closeBox(t, b)
	closeBox(t, b)
	if exit := b.ended(); !exit.Closed || exit.Code != 0 {
		t.Errorf("exit %+v, want a clean one", exit)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", home, err)
	}
}

func TestProcessStreamCloseEnds(t *testing.T) {
	b := processBox(t)
	if err := b.Stream().Close(); err != nil {
		t.Fatal(err)
	}
	if exit := b.ended(); exit.Closed || exit.Code != 0 {
		t.Errorf("exit %+v, want code 0, not Closed", exit)
	}
}

func TestProcessDeath(t *testing.T) {
	b := processBox(t)
	b.ask("eval_request", []byte("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"))
	if exit := b.ended(); exit.Code != 137 || exit.Closed {
		t.Errorf("exit %+v, want code 137", exit)
	}
	if _, err := ReadFrame(b.Stream()); err == nil {
		t.Error("a dead agent speaks")
	}
}

func TestProcessFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	for name, change := range map[string]func(*sandbox.Spec){
		"no such program": func(s *sandbox.Spec) { s.Command = []string{"/no/such/program"} },
		"mounts":          func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Host: "/", Sandbox: "/data/x"}} },
		"limits":          func(s *sandbox.Spec) { s.Limits = sandbox.Limits{} },
	} {
		spec := (&suite{agent: dir}).spec()
		change(&spec)
		if _, err := (&Process{Dir: dir}).Create(ctx, spec); err == nil {
			t.Errorf("%s: created", name)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "biocage-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// The start_request arrives in pieces and behind another frame; what follows
// it passes untouched.
func TestStartRewriter(t *testing.T) {
	var out, in strings.Builder
	for _, f := range []Frame{
		{Header: map[string]any{"type": "ping_request", "id": 1}},
		{Header: map[string]any{"type": "start_request", "id": 2, "workspace": "/work", "lease_ms": 5}, Body: []byte("body")},
		{Header: map[string]any{"type": "write_file_request", "id": 3, "workspace": "/work"}},
	} {
		if err := WriteFrame(&in, f.Header, f.Body); err != nil {
			t.Fatal(err)
		}
	}
	r := &startRewriter{to: &out, workspace: "/w", temp: "/t"}
	for _, c := range []byte(in.String()) {
		if _, err := r.Write([]byte{c}); err != nil {
			t.Fatal(err)
		}
	}
	read := strings.NewReader(out.String())
	var got []string
	for range 3 {
		f, err := ReadFrame(read)
		if err != nil {
			t.Fatal(err)
		}
		work, _ := f.Header["workspace"].(string)
		temp, _ := f.Header["temp"].(string)
		kind, _ := f.Header["type"].(string)
		got = append(got, strings.Join([]string{kind, work, temp, string(f.Body)}, " "))
	}
	want := "ping_request   |start_request /w /t body|write_file_request /work  "
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got %q, want %q", s, want)
	}
}
