//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/dockerproxy"
)

// with gives the lab another daemon.
func (l lab) with(host string) lab {
	var env []string
	for _, pair := range l.env {
		if !strings.HasPrefix(pair, "DOCKER_HOST=") {
			env = append(env, pair)
		}
	}
	l.env = append(env, "DOCKER_HOST="+host)
	return l
}

// proxied puts a proxy before the daemon. What is left is looked for behind it.
func proxied(t *testing.T, l lab) *dockerproxy.Proxy {
	t.Helper()
	daemon := os.Getenv("DOCKER_HOST")
	if daemon == "" {
		daemon = "unix:///var/run/docker.sock"
	}
	p, err := dockerproxy.New(t.Context(), daemon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// While a daemon is slow, fails, or loses what it carries, answers come in
// time and say so; afterwards the session works.
func TestFaultyDaemon(t *testing.T) {
	l := newLab(t, "docker")
	p := proxied(t, l)
	for name, fault := range map[string]dockerproxy.Fault{
		"slow":               {Before: dockerproxy.Slow(5 * time.Second)},
		"fails":              {Before: dockerproxy.Status(500, "boom")},
		"create answer lost": {Method: http.MethodPost, Path: "/containers/create", After: dockerproxy.Drop},
		"start answer lost":  {Method: http.MethodPost, Path: "/start", After: dockerproxy.Drop},
		"full":               {Method: http.MethodPost, Path: "/containers/create", Before: dockerproxy.Status(500, "no space left on device")},
	} {
		t.Run(name, func(t *testing.T) {
			c := l.start(t, options{env: []string{"DOCKER_HOST=" + p.Host()}})
			c.prepare(t)
			p.Set(&fault)
			defer p.Set(nil)
			c.gives(t, "x", "41") // who has a sandbox is not concerned
			begun := time.Now()
			a := c.call(t, "python_run", map[string]any{"code": "6 * 7", "session": "new"})
			clear(t, a)
			if p.Met() == 0 {
				t.Error("the fault was not met")
			}
			t.Logf("a new session's answer came after %.1f s: %s", time.Since(begun).Seconds(), a.Text())
			p.Set(nil)
			c.gives(t, "x", "41")
			for deadline := time.Now().Add(worksWithin); ; {
				a = c.call(t, "python_run", map[string]any{"code": "6 * 7", "session": "new"})
				if value(a) == "42" {
					break
				}
				clear(t, a)
				if time.Now().After(deadline) {
					t.Fatalf("no new session works: %s", a.Text())
				}
			}
		})
	}
}

// The streams to the daemon break, while code runs and while none does.
func TestCutStreams(t *testing.T) {
	l := newLab(t, "docker")
	p := proxied(t, l)
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy %t", busy), func(t *testing.T) {
			c := l.start(t, options{env: []string{"DOCKER_HOST=" + p.Host()}})
			c.prepare(t)
			told := ""
			if busy {
				run, err := c.BeginTool("python_run", map[string]any{"code": "import time; time.sleep(5); x"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				p.Cut()
				ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
				defer cancel()
				a, err := run.Answer(ctx)
				if err != nil {
					t.Fatal(err)
				}
				clear(t, a)
				told = a.Text() + a.Object.RestartReason
			} else {
				p.Cut()
			}
			c.lostOrKept(t, told+c.works(t))
		})
	}
}

// A daemon of the test's own, which may be killed.
type daemon struct {
	dir, host string
}

// startDaemon starts one with a small image, below dir.
func startDaemon(t *testing.T, dir string) *daemon {
	t.Helper()
	if os.Geteuid() != 0 {
		need(t, "a Docker daemon of our own takes root")
	}
	d := &daemon{dir: dir, host: "unix://" + filepath.Join(dir, "docker.sock")}
	d.script(t, "start")
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("the daemon's log ends (%v):\n%s", err, log[max(0, len(log)-3000):])
		}
		d.script(t, "stop")
	})
	return d
}

func (d *daemon) script(t *testing.T, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "dockerd.sh"), word)
	cmd.Env = append(os.Environ(), "BIOCAGE_DOCKERD=private", "BIOCAGE_DOCKERD_DIR="+d.dir)
	cmd.Stderr = os.Stderr
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("dockerd.sh %s: %v %s", word, err, out)
	}
}

// kill ends the daemon as a crash would.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	signal(t, syscall.SIGKILL, []int{pid})
}

// image is what the daemon runs: Python and nothing else.
const image = "biocage/chaos:latest"

// fill makes the image from the default environment, without its packages.
func (d *daemon) fill(t *testing.T) {
	t.Helper()
	root := os.Getenv("BIOCAGE_TEST_ROOTFS")
	if root == "" {
		need(t, "BIOCAGE_TEST_ROOTFS names no root file system")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c",
		`tar --create --numeric-owner --exclude='*/site-packages/*' --exclude=./usr/share --exclude='__pycache__' --directory "$1" . | docker import - "$2"`,
		"sh", root, image)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.host)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make the image: %v\n%s", err, out)
	}
}

// ownDaemon gives a lab with a daemon of its own in a directory.
func ownDaemon(t *testing.T, dir string) (lab, *daemon) {
	t.Helper()
	l := newLab(t, "docker")
	d := startDaemon(t, dir)
	d.fill(t)
	l = l.with(d.host)
	l.environment = image
	return l, d
}

// The daemon is killed, stays away for a while, and comes back.
func TestDaemonKilled(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "bcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l, d := ownDaemon(t, dir)
	c := l.start(t, options{})
	c.prepare(t)
	c.look(t)
	run, err := c.BeginTool("python_run", map[string]any{"code": "import time; time.sleep(4); x"})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	d.kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	a, err := run.Answer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	clear(t, a)
	told := a.Text() + a.Object.RestartReason
	t.Logf("the run that it met, after %.1f s: %s", a.Took.Seconds(), a.Text())

	away := c.call(t, "python_run", map[string]any{"code": "6 * 7", "session": "new"})
	if !away.Refused() || !strings.Contains(away.Text(), "Docker") {
		t.Errorf("a new session without a daemon: %s", away.Text())
	}
	clear(t, away)
	t.Logf("without a daemon, after %.1f s: %s", away.Took.Seconds(), away.Text())
	told += c.run(t, "1").Text()

	d.script(t, "start")
	c.lostOrKept(t, told+c.works(t))
}

// The daemon's disk is full: new sandboxes are refused, living ones go on, and
// all is well when there is room again.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	l, _ := ownDaemon(t, dir)
	c := l.start(t, options{})
	c.prepare(t)
	ballast := filepath.Join(dir, "ballast")
	file, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for err == nil {
		_, err = file.Write(chunk)
	}
	for chunk = chunk[:4096]; ; {
		if _, err := file.Write(chunk); err != nil {
			break
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	a := c.call(t, "python_run", map[string]any{"code": "6 * 7", "session": "new"})
	clear(t, a)
	if value(a) != "42" && !strings.Contains(a.Text(), "space") {
		t.Errorf("a full disk: %s", a.Text())
	}
	t.Logf("with a full disk: %s", a.Text())
	c.gives(t, "x", "41")
	c.gives(t, "open('more.txt', 'w').write('1' * 100000)", "100000")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if a := c.call(t, "python_run", map[string]any{"code": "6 * 7", "session": "room"}); value(a) != "42" {
		t.Errorf("with room again: %s", a.Text())
	}
	c.gives(t, "x", "41")
}

// smallDisk mounts a file system in a file.
func smallDisk(t *testing.T) string {
	t.Helper()
	newLab(t, "docker")
	if os.Geteuid() != 0 {
		need(t, "a disk of our own takes root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "bcd")
	if err != nil {
		t.Fatal(err)
	}
	disk, at := filepath.Join(dir, "disk"), filepath.Join(dir, "d")
	command := func(args ...string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v: %w: %s", args, err, out)
		}
		return nil
	}
	for _, args := range [][]string{
		{"truncate", "--size", "700M", disk}, {"mkfs.ext4", "-q", "-F", disk}, {"mkdir", at}, {"mount", "-o", "loop", disk, at},
	} {
		if err := command(args...); err != nil {
			_ = os.RemoveAll(dir) // told below
			need(t, "no disk of our own can be made here: %v", err)
		}
	}
	t.Cleanup(func() {
		if err := command("umount", at); err != nil {
			t.Error(err)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return at
}
