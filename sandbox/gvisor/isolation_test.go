//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// hostUser owns what is exposed in these tests.
const hostUser = 12345

// TestStdioIsNotGiven: the sentry must never hold what this process reads its
// orders from and writes its answers to.
func TestStdioIsNotGiven(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	e := testEngine(t, nil)
	saved := [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	os.Stdin, os.Stdout, os.Stderr = in, out, out
	k := start(t, e, testSpec(t))
	os.Stdin, os.Stdout, os.Stderr = saved[0], saved[1], saved[2]
	pipe, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", in.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can look into the sentry")
	}
	b := k.box.(*box)
	for _, pid := range []int{b.cont.Sandbox.Getpid(), b.gofer} {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		fds, err := os.ReadDir(dir)
		if err != nil || len(fds) == 0 {
			t.Fatal("the process shows no descriptors", err)
		}
		for _, fd := range fds {
			if link, _ := os.Readlink(filepath.Join(dir, fd.Name())); link == pipe {
				t.Errorf("process %d holds this process's standard streams as descriptor %s", pid, fd.Name())
			}
		}
	}
	if got := k.eval("[os.readlink(f'/proc/self/fd/{n}') for n in (0, 1, 2)]"); strings.Contains(got, "pipe") {
		t.Errorf("the sandbox's standard streams are %s", got)
	}
}

func TestSandboxSeesItsLimits(t *testing.T) {
	spec := testSpec(t)
	spec.Limits.CPUs = 0.5
	k := start(t, testEngine(t, nil), spec)
	if got := k.eval("os.cpu_count()"); got != "1" {
		t.Errorf("it counts %s processors, want 1", got)
	}
	if got := k.eval("open('/proc/meminfo').readline().split()[1]"); got != fmt.Sprintf("'%d'", spec.Limits.MemoryBytes>>10) {
		t.Errorf("it sees %s KiB of memory, want %d", got, spec.Limits.MemoryBytes>>10)
	}
}

// bomb is a process that takes more memory than any limit here; its parent
// tells the signal that ended it.
const bomb = `os.waitpid((lambda p: p or (bytearray(900 << 20), os._exit(0)))(os.fork()), 0)[1]`

// TestMemoryBombs: the process that breaks the limit dies, again and again,
// and the sandbox lives on. Where gVisor gives the dead process's memory back
// later than the kernel wants it, the kernel takes more processes, perhaps the
// first one: then the sandbox ends, and its end says why.
func TestMemoryBombs(t *testing.T) {
	e := testEngine(t, nil)
	if !e.Capabilities().HardMemory {
		skip(t, "no memory control groups")
	}
	spec := testSpec(t)
	spec.Limits.MemoryBytes = 128 << 20
	k, killed := start(t, e, spec), int64(0)
	for range 4 {
		if _, err := fmt.Fprintln(k.box.Stream(), bomb); err != nil {
			t.Fatal(err)
		}
		got, err := k.in.ReadString('\n')
		if err != nil {
			<-k.box.Done()
			if exit := k.box.Exit(); !exit.OOMKilled || exit.Closed {
				t.Fatalf("the sandbox ended with %+v (%v), want a memory kill", exit, err)
			}
			k, killed = start(t, e, spec), 0
			continue
		}
		if got != "9\n" {
			t.Errorf("the bomb ended with %s, want signal 9", got)
		}
		killed++
	}
	stats, err := k.box.Stats(t.Context())
	if err != nil || stats.OOMKills < killed {
		t.Errorf("stats %+v (%v), want %d memory kills", stats, err, killed)
	}
}

// TestAllProcessesBomb: every process takes memory at once. It must end in
// bounded time, by the death of the bombs or of the sandbox.
func TestAllProcessesBomb(t *testing.T) {
	for _, without := range []bool{false, true} {
		t.Run(fmt.Sprintf("without groups %v", without), func(t *testing.T) {
			e := testEngine(t, func(o *Options) { o.NoCgroups = without })
			spec := testSpec(t)
			spec.Limits.MemoryBytes = 128 << 20
			k := start(t, e, spec)
			if _, err := fmt.Fprintln(k.box.Stream(), `[os.fork() for _ in range(4)] and [bytearray(100 << 20) for _ in range(9)] and 0`); err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() {
				_, err := k.in.ReadString('\n')
				answered <- err
			}()
			select {
			case <-answered:
			case <-k.box.Done():
			case <-time.After(time.Minute):
				t.Fatal("it goes on for ever")
			}
			if without {
				<-k.box.Done()
				if exit := k.box.Exit(); !exit.OOMKilled || exit.Closed {
					t.Errorf("it ended with %+v", exit)
				}
			}
		})
	}
}

func TestParallel(t *testing.T) {
	e := testEngine(t, nil)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			box, err := e.Create(ctx, testSpec(t))
			if err != nil {
				t.Errorf("sandbox %d: %v", i, err)
				return
			}
			if err := box.Close(ctx); err != nil {
				t.Errorf("sandbox %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if os.Stdin.Name() == os.DevNull && os.Stdout.Name() == os.DevNull {
		t.Error("the standard streams were not given back")
	}
}

// exposed makes a directory that belongs to another user and shuts out all
// others.
func exposed(t *testing.T) *os.File {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "in")
	put(t, file, "hello")
	if err := errors.Join(os.Chmod(file, 0o600), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chown(file, hostUser, hostUser), os.Chown(dir, hostUser, hostUser)); err != nil {
			t.Fatal(err)
		}
	}
	opened, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened
}

// useBoth reads and writes through a read-only and a read-write exposure.
func useBoth(k *talker, ro, rw string) {
	k.t.Helper()
	// gVisor may answer that a mode was changed; what counts is that it was not.
	mode := "oct(os.stat('" + ro + "/in').st_mode)"
	before := k.eval("%s", mode)
	k.eval("os.chmod('%s/in', 0o604)", ro)
	if after := k.eval("%s", mode); after != before {
		k.t.Errorf("chmod below a read-only exposure: mode %s, want %s", after, before)
	}
	for _, c := range []struct{ code, want string }{
		{"open('" + ro + "/in').read()", "'hello'"},
		{"open('" + ro + "/new', 'w')", "OSError: [Errno 30] Read-only file system: '" + ro + "/new'"},
		{"open('" + rw + "/out', 'w').write('new')", "3"},
		{"os.mkdir('" + rw + "/d') or os.rename('" + rw + "/out', '" + rw + "/d/out')", "None"},
		{"sorted(os.listdir('" + ro + "'))", "['d', 'in']"},
	} {
		if got := k.eval("%s", c.code); got != c.want {
			k.t.Errorf("%s = %s, want %s", c.code, got, c.want)
		}
	}
}

func checkOwner(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want := uint32(os.Geteuid())
	if want == 0 {
		want = hostUser
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
		t.Errorf("%s belongs to %d, want %d", path, got, want)
	}
}

func TestExpose(t *testing.T) {
	e := testEngine(t, nil)
	if !e.Capabilities().LiveExpose {
		skip(t, "host files cannot be attached to running sandboxes here")
	}
	k := start(t, e, testSpec(t))
	dir := exposed(t)
	for target, mode := range map[string]sandbox.Mode{"/data/ro": sandbox.ReadOnly, "/mnt/a/rw": sandbox.ReadWrite} {
		if err := k.box.(sandbox.Exposer).Expose(t.Context(), dir, target, mode); err != nil {
			t.Fatal(err)
		}
	}
	useBoth(k, "/data/ro", "/mnt/a/rw")
	checkOwner(t, filepath.Join(dir.Name(), "d", "out"))
	// Later visits must not cost an earlier sandbox its life: the thread that
	// started it may not end.
	if got := start(t, e, testSpec(t)).eval("os.listdir('/data')"); got != "[]" {
		t.Errorf("another sandbox sees %s", got)
	}
	if got := k.eval("1"); got != "1" {
		t.Errorf("got %s", got)
	}
}

func TestMountsFromTheStart(t *testing.T) {
	e := testEngine(t, nil)
	spec, dir := testSpec(t), exposed(t).Name()
	spec.Mounts = []sandbox.Mount{
		{Host: dir, Sandbox: "/data/deep/ro"},
		{Host: dir, Sandbox: "/data/rw", Mode: sandbox.ReadWrite},
		{Host: filepath.Join(dir, "in"), Sandbox: "/app/file"},
	}
	k := start(t, e, spec)
	useBoth(k, "/data/deep/ro", "/data/rw")
	if got := k.eval("open('/app/file').read()"); got != "'hello'" {
		t.Errorf("the file is %s", got)
	}
	checkOwner(t, filepath.Join(dir, "d", "out"))
}

// TestMountsInWritablePlaces: a mount inside the workspace needs a mount point
// that only exists in the sandbox.
func TestMountsInWritablePlaces(t *testing.T) {
	dir := openDir(t)
	put(t, filepath.Join(dir, "in"), "hello")
	spec := testSpec(t)
	spec.Mounts = []sandbox.Mount{{Host: dir, Sandbox: "/work/a"}, {Host: dir, Sandbox: "/tmp/b"}}
	e := testEngine(t, nil)
	k := start(t, e, spec)
	for _, c := range []struct{ code, want string }{
		{"open('/work/a/in').read() + open('/tmp/b/in').read()", "'hellohello'"},
		{"open('/work/x', 'w').write('x') + open('/tmp/x', 'w').write('x')", "2"},
	} {
		if got := k.eval("%s", c.code); got != c.want {
			t.Errorf("%s = %s, want %s", c.code, got, c.want)
		}
	}
	// The workspace is still the bounded one, and not the directory below it.
	got := k.eval("open('/work/big', 'wb').write(bytes(40 << 20))")
	if !strings.Contains(got, "No space left") && !strings.Contains(got, "File too large") {
		t.Errorf("40 MiB in a workspace of 32 MiB: %s", got)
	}
	if !e.Capabilities().LiveExpose {
		return
	}
	spec.Mounts = []sandbox.Mount{{Host: exposed(t).Name(), Sandbox: "/work/a"}}
	if _, err := e.Create(t.Context(), spec); !errors.Is(err, sandbox.ErrUnsupported) {
		t.Errorf("a closed directory in the workspace: %v, want ErrUnsupported", err)
	}
}
