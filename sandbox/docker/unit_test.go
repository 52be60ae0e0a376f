package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func TestOwnerJudge(t *testing.T) {
	me := self()
	other := exec.Command("/bin/sleep", "300")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	sleeper := me
	sleeper.pid = other.Process.Pid
	start, err := startTime(sleeper.pid)
	if err != nil {
		t.Fatal(err)
	}
	sleeper.start = start
	change := func(f func(*owner)) owner { o := sleeper; f(&o); return o }
	check := func(name string, o owner, local bool, want verdict) {
		t.Helper()
		if got := o.judge(me, local); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	check("ourselves", me, true, alive)
	check("another process", sleeper, true, alive)
	check("its number was given anew", change(func(o *owner) { o.start = "1" }), true, dead)
	check("an earlier boot of this machine", change(func(o *owner) { o.boot = strings.Repeat("0", 32) }), true, dead)
	check("another machine at the same daemon", change(func(o *owner) { o.boot = strings.Repeat("0", 32) }), false, unknown)
	check("another pid namespace", change(func(o *owner) { o.pidns = "1"; o.pid = 1 << 22 }), true, unknown)
	check("no start time", change(func(o *owner) { o.start = "0"; o.pid = 1<<22 - 1 }), true, unknown)
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); sleeper.judge(me, true) != dead; { // as a zombie
		if time.Now().After(deadline) {
			t.Fatal("a zombie counts as alive")
		}
	}
	_ = other.Wait()
	check("a dead process", sleeper, true, dead)
}

func TestOwnerForms(t *testing.T) {
	o := self()
	back, err := parseOwner(o.String())
	if err != nil || back != o {
		t.Errorf("label: %+v, %v, want %+v", back, err, o)
	}
	short := o
	short.boot = o.boot[:8]
	if back, err := parseOwnerDir(o.dirName()); err != nil || back != short {
		t.Errorf("directory: %+v, %v, want %+v", back, err, short)
	}
	if got := short.judge(o, true); got != alive {
		t.Errorf("the shortened form is judged %d, want alive", got)
	}
	for _, label := range []string{"", "1", "a:1:b:c", "-1:1:b:c", "1:2:3:4:5"} {
		if _, err := parseOwner(label); err == nil {
			t.Errorf("label %q was read", label)
		}
	}
	for _, name := range []string{"", "biocage", "biocage-", "biocage-process-123", "other-1-2-3-4"} {
		if _, err := parseOwnerDir(name); err == nil {
			t.Errorf("directory %q was read", name)
		}
	}
}

func TestLeftOver(t *testing.T) {
	now := time.Now()
	gone := self()
	gone.pid, gone.start = 1<<22-1, "1"
	far := self()
	far.boot = "elsewhere"
	e := &Engine{instance: "mine", me: self(), opts: Options{ReapGrace: time.Minute}, live: map[string]struct{}{"kept": {}}}
	summary := func(instance, owner, name, state string, age time.Duration) container.Summary {
		return container.Summary{
			Names: []string{"/" + name}, State: state, Created: now.Add(-age).Unix(),
			Labels: map[string]string{labelInstance: instance, labelOwner: owner},
		}
	}
	for name, test := range map[string]struct {
		c     container.Summary
		local bool
		want  bool
	}{
		"dead owner":                     {summary("x", gone.String(), "n", "running", time.Hour), true, true},
		"dead owner, young":              {summary("x", gone.String(), "n", "created", time.Second), true, true},
		"another machine's, young":       {summary("x", far.String(), "n", "created", time.Second), false, false},
		"living owner":                   {summary("x", self().String(), "n", "exited", time.Hour), true, false},
		"ours":                           {summary("mine", self().String(), "kept", "running", time.Hour), true, false},
		"ours, answer lost":              {summary("mine", self().String(), "lost", "created", time.Hour), true, true},
		"ours, still made":               {summary("mine", self().String(), "lost", "created", time.Second), true, false},
		"another machine's":              {summary("x", far.String(), "n", "running", time.Hour), false, false},
		"another machine's, ended":       {summary("x", far.String(), "n", "exited", time.Hour), false, true},
		"earlier boot":                   {summary("x", far.String(), "n", "running", time.Hour), true, true},
		"label of someone else's making": {summary("x", "nonsense", "n", "running", time.Hour), true, false},
	} {
		if got := e.leftOver(test.c, &daemon{local: test.local}, now); got != test.want {
			t.Errorf("%s: left over %v, want %v", name, got, test.want)
		}
	}
}

func TestDoor(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "p")
	d, err := openDoor(parent)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(d.dir, channelFile)
	knock := func(secret []byte) net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write(secret); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	impostor := knock(make([]byte, secretBytes))
	hasty := knock(d.secret[:3])
	_ = hasty.Close()
	good := knock(append(append([]byte{}, d.secret...), "frames"...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := d.accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := impostor.Read(make([]byte, 1)); err == nil {
		t.Error("the impostor is still connected")
	}
	got := make([]byte, 6)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "frames" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := good.Write([]byte("x")); err != nil {
		t.Errorf("the supervisor's connection: %v", err)
	}
	if _, err := os.Stat(d.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's directory is left: %v", err)
	}
}

func TestDoorEnds(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		d, err := openDoor(filepath.Join(t.TempDir(), "p"))
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("the caller had enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
		if _, err := d.accept(ctx); !errors.Is(err, cause) {
			t.Errorf("accept: %v, want %v", err, cause)
		}
	})
	t.Run("impostors only", func(t *testing.T) {
		d, err := openDoor(filepath.Join(t.TempDir(), "p"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range badKnocks {
				if conn, err := net.Dial("unix", filepath.Join(d.dir, channelFile)); err == nil {
					_, _ = conn.Write(make([]byte, secretBytes))
					_, _ = conn.Read(make([]byte, 1))
					_ = conn.Close()
				}
			}
		}()
		if _, err := d.accept(t.Context()); !errors.Is(err, errImpostor) {
			t.Errorf("accept: %v, want errImpostor", err)
		}
	})
	t.Run("long path", func(t *testing.T) {
		parent := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
		if _, err := openDoor(parent); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
			t.Errorf("openDoor: %v, want a word about TMPDIR", err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("left: %v (%v)", left, err)
		}
	})
	t.Run("someone else's directory", func(t *testing.T) {
		parent := filepath.Join(t.TempDir(), "p")
		if err := errors.Join(os.Mkdir(parent, 0o700), os.Chmod(parent, 0o777)); err != nil {
			t.Fatal(err)
		}
		if _, err := openDoor(parent); err == nil {
			t.Error("a directory that others can write was used")
		}
	})
}

func TestLocateGroups(t *testing.T) {
	const v1 = `30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	const v2 = "31 30 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for name, test := range map[string]struct {
		member, mounts string
		want           *groups
	}{
		"version 1": {
			"12:pids:/docker/abc\n5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/docker/abc\n", v1,
			&groups{memory: "/sys/fs/cgroup/memory/docker/abc", cpu: "/sys/fs/cgroup/cpu,cpuacct/docker/abc", pids: "/sys/fs/cgroup/pids/docker/abc"},
		},
		"version 2": {
			"0::/system.slice/docker-abc.scope\n", v2,
			&groups{v2: true, memory: "/sys/fs/cgroup/system.slice/docker-abc.scope", cpu: "/sys/fs/cgroup/system.slice/docker-abc.scope", pids: "/sys/fs/cgroup/system.slice/docker-abc.scope"},
		},
		"part of a hierarchy": {
			"0::/outer/docker/abc\n", strings.Replace(v2, " / /sys", " /outer /sys", 1),
			&groups{v2: true, memory: "/sys/fs/cgroup/docker/abc", cpu: "/sys/fs/cgroup/docker/abc", pids: "/sys/fs/cgroup/docker/abc"},
		},
		"outside of what is mounted": {"0::/other/abc\n", strings.Replace(v2, " / /sys", " /outer /sys", 1), nil},
		"nothing mounted":            {"0::/docker/abc\n", "", nil},
		"nonsense":                   {"x\n::\n", "a b c\n - \n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := locate([]byte(test.member), []byte(test.mounts))
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(groups{})); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadGroups(t *testing.T) {
	write := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	one := write(map[string]string{
		"memory.usage_in_bytes": "1000\n", "memory.stat": "cache 5\ninactive_file 1\ntotal_inactive_file 300\n",
		"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "pids.current": "7\n", "cpuacct.usage": "5000\n",
	})
	two := write(map[string]string{
		"memory.current": "1000\n", "memory.stat": "anon 5\ninactive_file 300\n",
		"memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n", "pids.current": "7\n", "cpu.stat": "usage_usec 5\nuser_usec 3\n",
	})
	want := sandbox.Stats{MemoryBytes: 700, OOMKills: 2, CPU: 5 * time.Microsecond, PIDs: 7}
	for _, g := range []groups{{memory: one, cpu: one, pids: one}, {v2: true, memory: two, cpu: two, pids: two}} {
		if got, err := g.read(); err != nil || got != want {
			t.Errorf("read %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := (&groups{memory: t.TempDir()}).read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read of a container that ended: %v", err)
	}
}

func TestTail(t *testing.T) {
	for _, sizes := range [][]int{{10}, {tailBytes}, {tailBytes + 1}, {5, tailBytes - 1}, {tailBytes, tailBytes, 3}, {3 * tailBytes, 7}} {
		var all string
		got := &tail{}
		for i, size := range sizes {
			part := strings.Repeat(string(rune('a'+i)), size-1) + "|"
			all += part
			if n, err := got.Write([]byte(part)); n != size || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
		}
		if want := all[max(0, len(all)-tailBytes):]; got.String() != want {
			t.Errorf("%v: kept %d bytes, want the last %d", sizes, len(got.String()), len(want))
		}
	}
}

func TestDemultiplex(t *testing.T) {
	ours, theirs := net.Pipe()
	r, w := io.Pipe()
	stderr := &tail{}
	done := make(chan struct{})
	go func() { defer close(done); demultiplex(ours, w, stderr) }()
	go func() {
		_, _ = stdcopy.NewStdWriter(theirs, stdcopy.Stdout).Write([]byte("frame"))
		_, _ = stdcopy.NewStdWriter(theirs, stdcopy.Stderr).Write([]byte("complaint"))
		_ = theirs.Close()
	}()
	got, err := io.ReadAll(r)
	<-done
	if string(got) != "frame" || err != nil || stderr.String() != "complaint" {
		t.Errorf("stdout %q (%v), stderr %q", got, err, stderr)
	}
}

func TestExplain(t *testing.T) {
	for _, test := range []struct {
		err  error
		is   error
		says string
	}{
		{fmt.Errorf("dial: %w", os.ErrPermission), sandbox.ErrUnavailable, "usermod -aG docker"},
		{errors.New("create: no space left on device"), sandbox.ErrExhausted, "no space"},
		{context.DeadlineExceeded, sandbox.ErrUnavailable, "did not answer in time"},
		{context.Canceled, context.Canceled, "canceled"},
		{errors.New("invalid mount config: bind source path does not exist: /x"), sandbox.ErrUnavailable, "does not see this machine's files"},
	} {
		got := explain("unix:///s", test.err)
		if !errors.Is(got, test.is) || !errors.Is(got, test.err) || !strings.Contains(got.Error(), test.says) {
			t.Errorf("%v became %v", test.err, got)
		}
	}
	if explain("h", nil) != nil {
		t.Error("no error became one")
	}
}
