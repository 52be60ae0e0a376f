package environment

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// buildStore is a store of its own that shares the machine's caches, so that
// the base system and the wheels are fetched once and not by every test run.
func buildStore(t *testing.T) *Store {
	t.Helper()
	needNamespaces(t)
	if testing.Short() {
		t.Skip("builds a root file system")
	}
	if _, err := debianTool(); err != nil {
		unavailable(t, err.Error())
	}
	s := openStore(t, nil)
	shared := filepath.Join(DefaultDataDir(os.Geteuid(), os.Getenv), "cache")
	must(t, os.MkdirAll(shared, 0o755))
	must(t, os.Symlink(shared, s.cache()))
	return s
}

func writeProject(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pyproject.toml")
	must(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

const tinyProject = `[project]
requires-python = ">=3.10"
dependencies = ["six"]
[tool.biocage]
preload = ["six"]
apt = []
`

// TestBuild builds a small environment of a project file, and builds it again.
func TestBuild(t *testing.T) {
	s := buildStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var phases []string
	request := BuildRequest{Name: "tiny", ProjectFile: writeProject(t, tinyProject), Base: BaseDebootstrap, Progress: func(p Progress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
	}}
	built, err := s.Build(ctx, request)
	must(t, err)
	want := []string{phaseBase, phaseTools, phaseLock, phasePython, phaseBytecode, phaseCheck, phaseFinish}
	if diff := cmp.Diff(want, phases); diff != "" {
		t.Error(diff)
	}
	found, err := s.Find("tiny")
	must(t, err)
	if diff := cmp.Diff(built, found); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, p := range found.Packages {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"pip", "six"}, names); diff != "" {
		t.Error(diff)
	}
	for _, kept := range []string{"requirements.lock", "pyproject.toml"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(found.Dir), kept)); err != nil {
			t.Error(err)
		}
	}
	checkTree(t, found)
	checkBytecode(t, found)
	checkPython(ctx, t, s, found)

	again, err := s.Build(ctx, request)
	must(t, err)
	if diff := cmp.Diff(built, again); diff != "" {
		t.Error("nothing had changed, but it was built again:", diff)
	}
	if left, err := os.ReadDir(s.temp()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// checkTree: nothing privileged, everything readable, nothing half mounted.
func checkTree(t *testing.T, e Environment) {
	t.Helper()
	must(t, filepath.WalkDir(e.Dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode()
		if mode&fs.ModeSymlink == 0 && (mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice|fs.ModeNamedPipe) != 0 || mode&0o444 != 0o444 || mode.IsDir() && mode&0o111 != 0o111) {
			t.Errorf("%s has mode %v", name, mode)
		}
		return nil
	}))
	for _, point := range mountpoints() {
		entries, err := os.ReadDir(filepath.Join(e.Dir, point))
		if err != nil || len(entries) > 0 {
			t.Errorf("%s must be an empty directory: %v %v", point, entries, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if strings.Contains(string(mounts), e.Dir) {
		t.Error("a mount of the build is still there")
	}
}

// checkBytecode: the flags of all bytecode say that it is valid whatever the
// time of its source; bytecode tied to a time is compiled anew by every start.
func checkBytecode(t *testing.T, e Environment) {
	t.Helper()
	compiled := 0
	must(t, filepath.WalkDir(e.Dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".pyc" {
			return err
		}
		content, err := os.ReadFile(name)
		if err == nil && (len(content) < 8 || content[4] != 1) {
			t.Errorf("%s has flags %v", name, content[4:8])
		}
		compiled++
		return err
	}))
	if compiled < 500 {
		t.Errorf("only %d modules are compiled", compiled)
	}
}

// checkPython: the interpreter finds its packages, compiled, and says where it is.
func checkPython(ctx context.Context, t *testing.T, s *Store, e Environment) {
	t.Helper()
	r := room{root: e.Dir, support: t.TempDir(), cache: s.cache()}
	out, err := r.enter(ctx, step{
		Name:    "ask Python",
		Command: []string{"python3", "-I", "-c", "import sys, os, six, pip; print(sys.executable, sys.prefix, os.getuid(), os.path.exists(six.__cached__), open('/etc/biocage-environment.json').read().count('six'))"},
		Env:     e.Env(), Nobody: true,
	})
	must(t, err)
	user := "65534"
	if !canBecomeNobody() {
		user = "0"
	}
	if got, want := strings.TrimSpace(string(out)), e.Python+" /opt/venv "+user+" True 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestBuildFailures: a build that fails tells why and leaves nothing behind.
func TestBuildFailures(t *testing.T) {
	s := buildStore(t)
	for name, tt := range map[string]struct{ project, want string }{
		"no such package": {"[project]\ndependencies = [\"six==0.0.0.1\"]\n[tool.biocage]\napt = []\n", "six==0.0.0.1"},
		"bad preload":     {"[project]\ndependencies = [\"six\"]\n[tool.biocage]\napt = []\npreload = [\"sixx\"]\n", "tool.biocage.preload: sixx cannot be imported: ModuleNotFoundError"},
		"bad Debian name": {"[project]\ndependencies = [\"six\"]\n[tool.biocage]\napt = [\"no-such-package-at-all\"]\n", "no-such-package-at-all"},
		"other Python":    {"[project]\nrequires-python = \"<3.9\"\ndependencies = [\"six\"]\n[tool.biocage]\napt = []\n", "the project requires Python <3.9, but the base debootstrap trixie has 3.13."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Build(t.Context(), BuildRequest{Name: "bad", ProjectFile: writeProject(t, tt.project), Base: BaseDebootstrap})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if _, err := s.Find("bad"); !errors.Is(err, ErrNotBuilt) {
				t.Errorf("got %v, want ErrNotBuilt", err)
			}
			if left, err := os.ReadDir(s.temp()); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// TestBuildCancelled: a cancelled build ends soon and leaves nothing.
func TestBuildCancelled(t *testing.T) {
	s := buildStore(t)
	reason := errors.New("the user gave up")
	for _, phase := range []string{phaseBase, phaseLock} {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := s.Build(ctx, BuildRequest{Name: "bad", ProjectFile: writeProject(t, tinyProject), Base: BaseDebootstrap, Progress: func(p Progress) {
			if p.Phase == phase {
				cancel(reason)
			}
		}})
		if !errors.Is(err, reason) {
			t.Errorf("%s: got %v, want the cause", phase, err)
		}
		if left, err := os.ReadDir(s.temp()); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v %v", phase, left, err)
		}
	}
}

// TestSweepWorkspaces: what a killed build left is removed by the next one.
func TestSweepWorkspaces(t *testing.T) {
	s := openStore(t, nil)
	dead, alive := filepath.Join(s.temp(), "build-dead"), filepath.Join(s.temp(), "build-alive")
	grow(t, dead, "version/rootfs/file", "alive.lock")
	grow(t, alive, "version/rootfs/file", "alive.lock")
	lock, err := lockFile(filepath.Join(alive, "alive.lock"))
	must(t, err)
	defer lock.Close()
	old := unix.NsecToTimeval(time.Now().Add(-time.Hour).UnixNano())
	for _, dir := range []string{dead, alive} {
		must(t, unix.Utimes(dir, []unix.Timeval{old, old}))
	}
	own, done, err := s.workspace("build-")
	must(t, err)
	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the dead build's directory is still there: %v", err)
	}
	if _, err := os.Stat(alive); err != nil {
		t.Errorf("a living build's directory was removed: %v", err)
	}
	done()
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the own directory is still there: %v", err)
	}
}
