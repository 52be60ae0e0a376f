//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// openDir is a temporary directory with a short name that lets others in.
func openDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "bcg")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(raw)
}

func TestCgroupFiles(t *testing.T) {
	limits := sandbox.Limits{MemoryBytes: 1 << 30, CPUs: 1.5, PIDs: 100, DiskBytes: 1 << 20}
	memory := "1279262720" // the limit, the kernel's part, and a part for each process
	for _, c := range []struct {
		name  string
		v2    bool
		stat  string
		oom   string
		cpu   string
		want  map[string]string
		stats sandbox.Stats
	}{
		{
			name: "version 1", stat: "cache 5\ntotal_rss 100\ntotal_shmem 20\n", oom: "memory.oom_control", cpu: "cpuacct.usage",
			want: map[string]string{
				"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory,
				"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000", "pids.max": "4096", "memory.max": "",
			},
			stats: sandbox.Stats{MemoryBytes: 120, OOMKills: 3, CPU: 7 * time.Second, PIDs: -1},
		},
		{
			name: "version 2", v2: true, stat: "anon 100\nfile 7\nshmem 20\n", oom: "memory.events", cpu: "cpu.stat",
			want: map[string]string{
				"memory.max": memory, "memory.swap.max": "0", "cpu.max": "150000 100000", "pids.max": "4096", "memory.limit_in_bytes": "",
			},
			stats: sandbox.Stats{MemoryBytes: 120, OOMKills: 3, CPU: 7 * time.Second, PIDs: -1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			tree := &cgroupTree{v2: c.v2, dirs: map[string]string{}}
			for _, controller := range wantedControllers() {
				tree.dirs[controller] = parent
			}
			for file := range c.want { // the files that this kernel has
				put(t, filepath.Join(parent, "gv-x", file), "")
			}
			put(t, filepath.Join(parent, "gv-x", "memory.stat"), c.stat)
			put(t, filepath.Join(parent, "gv-x", c.oom), "under_oom 0\noom_kill 3\n")
			cpu := map[bool]string{false: "7000000000\n", true: "usage_usec 7000000\nuser_usec 1\n"}
			put(t, filepath.Join(parent, "gv-x", c.cpu), cpu[c.v2])
			g, err := tree.create("gv-x", limits)
			if err != nil {
				t.Fatal(err)
			}
			for file, want := range c.want {
				if got := read(t, filepath.Join(parent, "gv-x", file)); got != want {
					t.Errorf("%s is %q, want %q", file, got, want)
				}
			}
			stats, err := g.stats()
			if diff := cmp.Diff(c.stats, stats); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
			if err := g.add(77); err != nil || read(t, filepath.Join(parent, "gv-x", "cgroup.procs")) != "77" {
				t.Errorf("add: %v", err)
			}
		})
	}
}

func TestOwnerAlive(t *testing.T) {
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		who  owner
		want bool
	}{
		{"this process", me, true},
		{"another process with this pid", owner{PID: me.PID, Start: me.Start + 1, Boot: me.Boot}, false},
		{"a pid that nobody has", owner{PID: 1 << 30, Start: me.Start, Boot: me.Boot}, false},
		{"before the last boot", owner{PID: me.PID, Start: me.Start, Boot: "x"}, false},
	} {
		if got := c.who.alive(); got != c.want {
			t.Errorf("%s: alive is %v, want %v", c.name, got, c.want)
		}
	}
}

func TestInstances(t *testing.T) {
	run := t.TempDir()
	own, err := newInstance(run)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(run, "i-nobody", "x"), "")
	put(t, filepath.Join(run, ".new-half", "x"), "")
	put(t, filepath.Join(run, "i-broken", ownerFile), "{")
	put(t, filepath.Join(run, "unrelated", "x"), "")
	all, err := instances(run)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(2 * staleAfter)
	got := map[string]string{}
	for _, in := range all {
		soon, err := in.dead(time.Now())
		if err != nil {
			got[in.name] = "unreadable"
			continue
		}
		late, err := in.dead(later)
		if err != nil {
			t.Fatal(err)
		}
		got[in.name] = map[[2]bool]string{{false, false}: "alive", {false, true}: "dead later", {true, true}: "dead"}[[2]bool{soon, late}]
	}
	want := map[string]string{own.name: "alive", "i-nobody": "dead later", ".new-half": "dead later", "i-broken": "unreadable"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPrepareRunDir(t *testing.T) {
	base := t.TempDir()
	open, link := openDir(t), openDir(t)
	if err := errors.Join(os.Chmod(open, 0o777), os.Symlink(base, link+"/l")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, want string }{
		{openDir(t) + "/new", ""},
		{"relative", "not a clean absolute path"},
		{"/tmp/../tmp/x", "not a clean absolute path"},
		{"/tmp/" + strings.Repeat("x", MaxRunDir), "choose a shorter one"},
		{open, "nobody else can write"},
		{link + "/l", "nobody else can write"},
	} {
		err := prepareRunDir(c.dir)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.dir, err, c.want)
		}
	}
}

func TestPickRange(t *testing.T) {
	for _, c := range []struct {
		size        uint64
		first, last uint32
	}{
		{1 << 32, rangeFirst, rangeLast}, {65536, 32768, 65534}, {1, 0, 0}, {0, 0, 0},
	} {
		if first, last := pickRange(c.size); first != c.first || last != c.last {
			t.Errorf("%d ids: %d to %d, want %d to %d", c.size, first, last, c.first, c.last)
		}
	}
}

func TestCheckRoot(t *testing.T) {
	root := openDir(t)
	put(t, filepath.Join(root, "srv", "file"), "")
	spec := sandbox.Spec{Root: sandbox.Root{Dir: root}}
	if err := checkRoot(spec); err != nil {
		t.Fatal("mount points are made where they can be:", err)
	}
	for _, target := range []string{"/data/x/y", "/work/x", "/tmp/x", "/srv", "/srv/file"} {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: "/", Sandbox: target})
	}
	if err := checkRoot(spec); err != nil {
		t.Error(err)
	}
	spec.Mounts = []sandbox.Mount{{Host: "/", Sandbox: "/nowhere"}, {Host: "/", Sandbox: "/srv/none"}}
	var fault *sandbox.SpecError
	if err := checkRoot(spec); !errors.As(err, &fault) || !strings.Contains(err.Error(), "use a path beneath /data") {
		t.Errorf("got %v", err)
	}
	if err := checkRoot(sandbox.Spec{Root: sandbox.Root{Dir: root + "/none"}}); !errors.Is(err, sandbox.ErrRootMissing) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(root, "work")), os.Symlink("/etc", filepath.Join(root, "work"))); err != nil {
		t.Fatal(err)
	}
	if err := checkRoot(sandbox.Spec{Root: sandbox.Root{Dir: root}}); !errors.Is(err, sandbox.ErrRootMissing) {
		t.Errorf("a mount point that leads out of the environment: %v", err)
	}
}

func TestStdioGuard(t *testing.T) {
	var g stdioGuard
	in, out := os.Stdin, os.Stdout
	first, err := g.hide()
	if err != nil {
		t.Fatal(err)
	}
	second, err := g.hide()
	if err != nil {
		t.Fatal(err)
	}
	hidden := os.Stdin != in && os.Stdout != out && os.Stdin.Name() == os.DevNull
	err = first()
	still := os.Stdout != out
	err = errors.Join(err, second())
	if !hidden || !still || os.Stdin != in || os.Stdout != out || err != nil {
		t.Errorf("hidden %v, still hidden for the second %v, given back %v: %v", hidden, still, os.Stdout == out, err)
	}
}

// Containers see control groups on a read-only file system, where even what is
// not there cannot be removed.
func TestRemoveDirsReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
		if err := unix.Mount(dir, dir, "", flags, ""); errors.Is(err, unix.EPERM) && flags == unix.MS_BIND {
			t.Skip("this root may not mount")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := removeDirs(map[string]string{"": filepath.Join(dir, "none")}); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	if err := removeDirs(map[string]string{"": filepath.Join(dir, "there")}); !errors.Is(err, unix.EROFS) {
		t.Errorf("what is there: %v", err)
	}
}

// A process that may open few files is told so, and not how its sandbox ended.
func TestFilesSuffice(t *testing.T) {
	for most, want := range map[uint64]string{
		64: "this process may have 64 open files", 4095: "ulimit -n 4096", 4096: "", 1 << 20: "",
	} {
		err := filesSuffice(most)
		if want == "" && err != nil || want != "" && (!errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v, want %q", most, err, want)
		}
	}
}
