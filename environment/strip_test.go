package environment

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func grow(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, name := range files {
		full := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must(t, os.WriteFile(full, []byte("content"), 0o600))
	}
}

func TestStrip(t *testing.T) {
	dir := t.TempDir()
	grow(t, dir,
		"usr/bin/su", "usr/bin/python3", "usr/lib/python3/os.py", "var/lib/apt/lists/main", "var/cache/apt/x.deb",
		"usr/share/doc/bash/copyright", "usr/share/doc/bash/examples/loop.sh", "usr/share/doc/bash/README", "usr/share/man/man1/su.1",
		"usr/lib/locale/C.utf8/LC_CTYPE", "usr/lib/locale/de_DE.utf8/LC_CTYPE", "usr/share/locale/de/x.mo",
		"tmp/leftover", "root/.bashrc", "run/lock/x", "var/lib/dpkg/info/a.list", "var/lib/dpkg/status", "etc/apt/sources.list", "etc/passwd",
	)
	must(t, os.Chmod(filepath.Join(dir, "usr/bin/su"), 0o755|fs.ModeSetuid))
	must(t, os.Chmod(filepath.Join(dir, "usr/bin/python3"), 0o700))
	must(t, os.Chmod(filepath.Join(dir, "usr/lib/python3"), 0o2770))
	must(t, unix.Mkfifo(filepath.Join(dir, "usr/pipe"), 0o666))

	_, err := strip(t.Context(), dir, false)
	must(t, err)
	for _, kept := range []string{"var/lib/dpkg/info/a.list", "etc/apt/sources.list"} {
		if _, err := os.Stat(filepath.Join(dir, kept)); err != nil {
			t.Errorf("a base must keep what installing more needs: %v", err)
		}
	}
	size, err := strip(t.Context(), dir, true)
	must(t, err)
	if size <= 0 {
		t.Errorf("the size is %d", size)
	}
	var files []string
	modes := make(map[string]fs.FileMode)
	must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		must(t, err)
		info, err := e.Info()
		must(t, err)
		relative, err := filepath.Rel(dir, name)
		must(t, err)
		modes[relative] = info.Mode()
		if !e.IsDir() {
			files = append(files, relative)
		}
		if info.Mode().Perm()&0o444 != 0o444 || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s has mode %v", relative, info.Mode())
		}
		return nil
	}))
	want := []string{
		"etc/passwd", "usr/bin/python3", "usr/bin/su", "usr/lib/locale/C.utf8/LC_CTYPE", "usr/lib/python3/os.py",
		"usr/share/doc/bash/copyright", "var/lib/dpkg/status",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
	for name, mode := range map[string]fs.FileMode{
		"usr/bin/su": 0o755, "usr/bin/python3": 0o755, "etc/passwd": 0o644,
		"usr/lib/python3": fs.ModeDir | 0o755, "tmp": fs.ModeDir | fs.ModeSticky | 0o777, "work": fs.ModeDir | 0o755,
	} {
		if modes[name] != mode {
			t.Errorf("%s has mode %v, want %v", name, modes[name], mode)
		}
	}
	for _, point := range mountpoints() {
		if entries, err := os.ReadDir(filepath.Join(dir, point)); err != nil || len(entries) > 0 && point != "/tmp" {
			t.Errorf("%s must be an empty directory: %v %v", point, entries, err)
		}
	}
}

// TestStripStaysInside: a base whose directories are links to the host's must
// not make the builder empty those.
func TestStripStaysInside(t *testing.T) {
	host, dir := t.TempDir(), t.TempDir()
	grow(t, host, "share/doc/precious", "cache/precious")
	must(t, os.Symlink(host, filepath.Join(dir, "usr")))
	must(t, os.Mkdir(filepath.Join(dir, "var"), 0o755))
	must(t, os.Symlink(filepath.Join(host, "cache"), filepath.Join(dir, "var/cache")))
	if _, err := strip(t.Context(), dir, true); err == nil {
		t.Error("a base with /usr outside was taken")
	}
	for _, name := range []string{"share/doc/precious", "cache/precious"} {
		if info, err := os.Stat(filepath.Join(host, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("the host's file was touched: %v", err)
		}
	}
}

func TestStripObeysContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	if _, err := strip(ctx, t.TempDir(), true); !errors.Is(err, reason) {
		t.Errorf("got %v, want the cause", err)
	}
}
