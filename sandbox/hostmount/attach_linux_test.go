package hostmount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Ids of the tests: who owns what is exposed, and who the sandbox is.
const (
	ownerID   = 4321
	sandboxID = 1_234_567
)

func TestSwap(t *testing.T) {
	for _, test := range []struct {
		a, b int
		want []syscall.SysProcIDMap
	}{
		{5, 9, []syscall.SysProcIDMap{{HostID: 0, ContainerID: 0, Size: 5}, {ContainerID: 5, HostID: 9, Size: 1}, {ContainerID: 6, HostID: 6, Size: 3}, {ContainerID: 9, HostID: 5, Size: 1}, {ContainerID: 10, HostID: 10, Size: 1<<32 - 11}}},
		{9, 8, []syscall.SysProcIDMap{{Size: 8}, {ContainerID: 8, HostID: 9, Size: 1}, {ContainerID: 9, HostID: 8, Size: 1}, {ContainerID: 10, HostID: 10, Size: 1<<32 - 11}}},
		{0, 1, []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1, Size: 1}, {ContainerID: 1, HostID: 0, Size: 1}, {ContainerID: 2, HostID: 2, Size: 1<<32 - 3}}},
		{7, 7, []syscall.SysProcIDMap{{Size: 7}, {ContainerID: 7, HostID: 7, Size: 1}, {ContainerID: 8, HostID: 8, Size: 1<<32 - 9}}},
	} {
		if diff := cmp.Diff(test.want, swap(test.a, test.b)); diff != "" {
			t.Errorf("swap %d and %d (-want +got):\n%s", test.a, test.b, diff)
		}
	}
}

// A cell is a process with a mount namespace of its own, in which root stands
// for a sandbox's root.
type cell struct {
	pid  int
	root string
}

func newCell(t *testing.T) cell {
	t.Helper()
	if err := Supported(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	root := t.TempDir()
	for _, dir := range sandbox.LiveRoots() {
		if err := os.Mkdir(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	process := exec.Command("sleep", "600")
	process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	for dir := root; dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil && dir == root {
			t.Fatal(err)
		}
		if dir == os.TempDir() {
			break
		}
	}
	return cell{process.Process.Pid, root}
}

func (c cell) attach(t *testing.T, source, target string, mode sandbox.Mode) (Result, error) {
	t.Helper()
	file, err := os.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	return Attach(t.Context(), Request{PID: c.pid, Root: c.root, Source: file, Target: target, Mode: mode, UID: sandboxID, GID: sandboxID})
}

// sh runs a command as the sandbox's user in the cell's namespace.
func (c cell) sh(script string) (string, error) {
	id := strconv.Itoa(sandboxID)
	command := exec.Command("nsenter", "-t", strconv.Itoa(c.pid), "-m", "--setuid", id, "--setgid", id, "sh", "-c", "cd "+c.root+" && "+script)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func tree(t *testing.T, uid int) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "alpha", "b": "beta"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(dir, uid, uid), os.Chown(filepath.Join(dir, "a"), uid, uid), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAttach(t *testing.T) {
	for _, owner := range []int{ownerID, 0, sandboxID} {
		t.Run(fmt.Sprint("owner ", owner), func(t *testing.T) {
			c := newCell(t)
			dir := tree(t, owner)
			for target, mode := range map[string]sandbox.Mode{"/data/deep/ro": sandbox.ReadOnly, "/data/rw": sandbox.ReadWrite} {
				result, err := c.attach(t, dir, target, mode)
				if err != nil || !result.Mapped {
					t.Fatalf("attach at %s: %+v, %v", target, result, err)
				}
			}
			if out, err := c.sh("cat data/deep/ro/a"); err != nil || out != "alpha" {
				t.Errorf("read: %q, %v", out, err)
			}
			if out, err := c.sh("echo x > data/deep/ro/a"); err == nil || !strings.Contains(out, "Read-only") {
				t.Errorf("write to read-only: %q, %v", out, err)
			}
			if out, err := c.sh("echo x > data/rw/new && mkdir data/rw/dir && echo y >> data/rw/a && stat -c %u data/rw/new"); err != nil || out != strconv.Itoa(sandboxID) {
				t.Errorf("write: %q, %v", out, err)
			}
			for _, name := range []string{"new", "dir", "a"} {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != owner {
					t.Errorf("%s belongs to %d on the host, want %d", name, uid, owner)
				}
			}
			if owner != 0 { // what is not the owner's stays out of reach
				if out, err := c.sh("cat data/rw/b"); err == nil {
					t.Errorf("a file of another user was read: %q", out)
				}
			}
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil || strings.Contains(string(mounts), c.root) {
				t.Errorf("the host sees the mount (%v)", err)
			}
		})
	}
}

func TestAttachFile(t *testing.T) {
	c := newCell(t)
	dir := tree(t, ownerID)
	if _, err := c.attach(t, dir+"/a", "/mnt/x/one.txt", sandbox.ReadOnly); err != nil {
		t.Fatal(err)
	}
	if out, err := c.sh("cat mnt/x/one.txt; ls mnt/x"); err != nil || out != "alphaone.txt" {
		t.Errorf("%q, %v", out, err)
	}
}

// What is exposed again at the same place is what the host has there now, as
// when an editor replaced the file by a new one.
func TestAttachAgain(t *testing.T) {
	c := newCell(t)
	dir, other := tree(t, ownerID), t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "a"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(other, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, step := range []struct{ source, target, read, want string }{
			{dir + "/a", "/mnt/x/one.txt", "mnt/x/one.txt", "alpha"},
			{other + "/a", "/mnt/x/one.txt", "mnt/x/one.txt", "new"},
			{dir, "/data/tree", "data/tree/a", "alpha"},
			{other, "/data/tree", "data/tree/a", "new"},
		} {
			if _, err := c.attach(t, step.source, step.target, sandbox.ReadOnly); err != nil {
				t.Fatal(err)
			}
			if out, err := c.sh("cat " + step.read); err != nil || out != step.want {
				t.Errorf("%s reads %q, %v, want %q", step.target, out, err, step.want)
			}
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.pid))
	if err != nil || strings.Count(string(mounts), c.root) != 2 {
		t.Errorf("there are more mounts than places (%v):\n%s", err, mounts)
	}
	for target, source := range map[string]string{"/data/tree": dir + "/a", "/mnt/x/one.txt": dir} {
		if _, err := c.attach(t, source, target, sandbox.ReadOnly); !errors.Is(err, ErrBusy) {
			t.Errorf("another kind at %s: %v, want ErrBusy", target, err)
		}
	}
	if out, err := c.sh("cat data/tree/a mnt/x/one.txt"); err != nil || out != "newnew" {
		t.Errorf("after a refusal: %q, %v", out, err)
	}
}

// A device or a set-user-id program in the source is of no use inside.
func TestAttachRestricts(t *testing.T) {
	c := newCell(t)
	if _, err := c.attach(t, tree(t, ownerID), "/data/x", sandbox.ReadWrite); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		field := strings.Fields(line)
		if field[4] != c.root+"/data/x" {
			continue
		}
		if !strings.Contains(field[5], "nosuid") || !strings.Contains(field[5], "nodev") || strings.Contains(line, "shared:") {
			t.Errorf("mount is %s", line)
		}
		return
	}
	t.Error("no mount")
}

func TestAttachRefuses(t *testing.T) {
	c := newCell(t)
	dir := tree(t, ownerID)
	if _, err := c.attach(t, dir, "/data/taken", sandbox.ReadWrite); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() error{
		"link":  func() error { return os.Symlink(dir, c.root+"/data/link") },
		"plain": func() error { return os.WriteFile(c.root+"/data/plain", nil, 0o600) },
		"loose": func() error { return os.Chmod(c.root+"/app", 0o777) },
		"fifo":  func() error { return unix.Mkfifo(dir+"/fifo", 0o600) },
	} {
		if err := make(); err != nil {
			t.Fatal(name, err)
		}
	}
	for target, busy := range map[string]bool{
		"/data/taken/inner": true, "/data/plain": true, "/data/plain/x": true,
		"/data/link/x": false, "/data/link": false, "/app/x": false, "/etc/x": false,
	} {
		_, err := c.attach(t, dir, target, sandbox.ReadOnly)
		if err == nil || (busy && !errors.Is(err, ErrBusy)) {
			t.Errorf("%s: %v (want ErrBusy: %v)", target, err, busy)
		}
	}
	if _, err := os.Stat(dir + "/inner"); err == nil {
		t.Error("a mount point was made in an exposed directory of the host")
	}
	fifo, err := os.OpenFile(dir+"/fifo", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fifo.Close() }()
	source, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	for name, req := range map[string]Request{
		"a fifo":        {PID: c.pid, Root: c.root, Source: fifo, Target: "/data/f"},
		"our namespace": {PID: os.Getpid(), Root: c.root, Source: source, Target: "/data/f"},
		"no process":    {PID: 1<<22 - 1, Root: c.root, Source: source, Target: "/data/f"},
		"no root":       {PID: c.pid, Root: c.root + "/none", Source: source, Target: "/data/f"},
	} {
		if _, err := Attach(t.Context(), req); err == nil {
			t.Errorf("%s: attached", name)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Attach(ended, Request{PID: c.pid, Root: c.root, Source: source, Target: "/data/f"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A file system that cannot map owners is attached plainly, and told so.
func TestAttachUnmapped(t *testing.T) {
	c := newCell(t)
	result, err := c.attach(t, "/sys/kernel", "/data/x", sandbox.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	if result.Mapped || result.Reason == "" {
		t.Errorf("result %+v, want a reason why owners are not mapped", result)
	}
	if out, err := c.sh("ls data/x"); err != nil || out == "" {
		t.Errorf("%q, %v", out, err)
	}
}

// Many at once, to several sandboxes; no thread of the server changes place,
// and no descriptor is left.
func TestAttachConcurrently(t *testing.T) {
	cells := []cell{newCell(t), newCell(t)}
	dir := tree(t, ownerID)
	before, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			if _, err := cells[i%2].attach(t, dir, fmt.Sprintf("/data/d%d", i), sandbox.ReadOnly); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("this thread has lost the host's files: %v", err)
			}
		})
	}
	wait.Wait()
	for i := range 20 {
		if out, err := cells[i%2].sh(fmt.Sprintf("cat data/d%d/a", i)); err != nil || out != "alpha" {
			t.Errorf("%d: %q, %v", i, out, err)
		}
	}
	after, err := os.ReadDir("/proc/self/fd")
	if err != nil || len(after) > len(before)+1 {
		t.Errorf("%d descriptors, before %d (%v)", len(after), len(before), err)
	}
}
