//go:build unix

package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// owner is the user that the exposed directory belongs to in these tests.
const owner = 4321

func (s *suite) testExpose(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e)
	if !e.Capabilities().LiveExpose {
		t.Log("does not apply: no live exposure here")
		return
	}
	exposer, ok := b.Sandbox.(sandbox.Exposer)
	if !ok {
		t.Fatal("Capabilities say LiveExpose, the sandbox is no Exposer")
	}
	dir := exposedTree(t)
	attach := func(name, target string, mode sandbox.Mode) error {
		t.Helper()
		source, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = source.Close() }()
		return exposer.Expose(context.Background(), source, target, mode)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(attach("ro", "/data/ro", sandbox.ReadOnly))
	must(attach("rw", "/mnt/deep/er/rw", sandbox.ReadWrite))
	must(attach("ro/file", "/app/one.csv", sandbox.ReadOnly))

	got := b.out(readOnlyAttempts)
	if want := "secret\nsecret\nlate"; got != want {
		t.Errorf("read-only exposure: %q, want %q", got, want)
	}
	b.out(`
import os
os.makedirs("/mnt/deep/er/rw/sub")
open("/mnt/deep/er/rw/sub/out", "w").write("x")
open("/mnt/deep/er/rw/mine", "a").write("more")
os.rename("/mnt/deep/er/rw/sub/out", "/mnt/deep/er/rw/out")
`)
	for _, name := range []string{"rw/out", "rw/sub", "rw/mine"} {
		var stat syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, name), &stat); err != nil {
			t.Fatal(err)
		}
		if stat.Uid != owner || stat.Gid != owner {
			t.Errorf("%s belongs to %d:%d, want %d:%d", name, stat.Uid, stat.Gid, owner, owner)
		}
	}
	noSetID(t, b, dir)
	s.exposeRefused(t, attach)
	s.exposeAgain(t, b, dir, attach)
	// Nothing of it is mounted on the host, and other sandboxes see nothing.
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("the exposure is in the host's mounts (%v)", err)
	}
	if got := s.create(t, e).out("import os; print(os.listdir('/data'), os.listdir('/mnt'), os.listdir('/app'))"); got != "[] [] []" {
		t.Errorf("another sandbox sees %s", got)
	}
	closeBox(t, b)
	if err := attach("ro", "/data/late", sandbox.ReadOnly); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("expose to a closed sandbox: %v, want ErrClosed", err)
	}
}

// noSetID: a set-id program in a read-write exposure would run on the host
// with the rights of the exposure's owner. What counts is the host's file: an
// engine may answer yes and do nothing.
func noSetID(t *testing.T, b *box, dir string) {
	t.Helper()
	b.out(`
import os
at = "/mnt/deep/er/rw/"
tries = (
    lambda: os.chmod(at + "mine", 0o6755),
    lambda: os.fchmod(os.open(at + "mine", os.O_RDWR), 0o4755),
    lambda: os.open(at + "made", os.O_WRONLY | os.O_CREAT, 0o6755),
    lambda: os.mknod(at + "node", 0o104755),
    lambda: os.link(at + "mine", at + "linked") or os.chmod(at + "linked", 0o2755),
)
for attempt in tries:
    try: attempt()
    except OSError: pass
`)
	err := filepath.WalkDir(filepath.Join(dir, "rw"), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s has mode %s on the host", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// exposeAgain replaces a file as editors do and exposes it at the same place.
func (s *suite) exposeAgain(t *testing.T, b *box, dir string, attach func(name, target string, mode sandbox.Mode) error) {
	t.Helper()
	fresh := filepath.Join(dir, "fresh")
	if err := os.WriteFile(fresh, []byte("replaced"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Lchown(fresh, owner, owner), os.Rename(fresh, filepath.Join(dir, "ro/file"))); err != nil {
		t.Fatal(err)
	}
	if err := attach("ro/file", "/app/one.csv", sandbox.ReadOnly); err != nil {
		t.Fatal(err)
	}
	if err := attach("rw", "/data/ro", sandbox.ReadOnly); err != nil {
		t.Fatal(err)
	}
	if got := b.out(`print(open("/app/one.csv").read(), open("/data/ro/mine").read())`); got != "replaced minemore" {
		t.Errorf("exposed again: %q", got)
	}
}

// exposedTree belongs to a user that is neither us nor the sandbox's, with
// files that only this user may read.
func exposedTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ro", "ro/sub", "rw"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("ro/file", "secret")
	write("ro/sub/late", "late")
	write("rw/mine", "mine")
	err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, owner, owner))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// readOnlyAttempts prints what it could read, and whatever it could change.
const readOnlyAttempts = `
import os
print(open("/data/ro/file").read())
print(open("/app/one.csv").read())
print(open("/data/ro/sub/late").read())
def attempt(name, f, *a):
    try: f(*a); print("allowed", name)
    except OSError: pass
def chmod(path, mode):
    os.chmod(path, mode)  # gVisor says yes where nothing changed
    if os.stat(path).st_mode & 0o777 != mode: raise OSError("unchanged")
for path in "/data/ro/file", "/app/one.csv":
    attempt("write", open, path, "a")
    attempt("truncate", os.truncate, path, 0)
    attempt("chmod", chmod, path, 0o777)
    attempt("utime", os.utime, path, (0, 0))
    attempt("unlink", os.unlink, path)
    attempt("setxattr", os.setxattr, path, "user.x", b"1")
    attempt("rename", os.rename, path, path + "x")
attempt("create", open, "/data/ro/new", "w")
attempt("mkdir", os.mkdir, "/data/ro/dir")
attempt("hide", os.rename, "/data/ro", "/data/x")
attempt("link", os.symlink, "/etc", "/data/link")
`

func (s *suite) exposeRefused(t *testing.T, attach func(name, target string, mode sandbox.Mode) error) {
	t.Helper()
	for _, target := range []string{
		"/", "/work/x", "/tmp/x", "/etc/passwd", "/opt/biocage/x", "/data", "/data/", "/data/../etc/x", "data/x", "",
		"/databank/x", "/data/ro/sub", "/data/ro/inner", "/mnt/deep/er/rw/inner", "/data/a\x00b", "/app/one.csv", "/app/one.csv/x",
	} {
		if err := attach("ro", target, sandbox.ReadOnly); err == nil {
			t.Errorf("exposing at %q was not refused", target)
		}
	}
	if err := attach("ro/file", "/mnt/deep", sandbox.ReadOnly); err == nil {
		t.Error("a file was exposed at a directory")
	}
}
