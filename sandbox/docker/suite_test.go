//go:build unix

package docker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/sandboxtest"
)

// Where the tests find a daemon and an image with python3.
const (
	envHost    = "DOCKER_HOST"
	envImage   = "BIOCAGE_TEST_IMAGE"
	envRun     = "BIOCAGE_TEST_DOCKER_RUN"     // handed to the host process
	envChannel = "BIOCAGE_TEST_DOCKER_CHANNEL" // handed to the host process
	envRuntime = "BIOCAGE_TEST_DOCKER_RUNTIME" // handed to the host process
)

func TestMain(m *testing.M) {
	sandboxtest.HostProcess(func() (sandbox.Engine, error) {
		channel, err := strconv.Atoi(os.Getenv(envChannel))
		if err != nil {
			return nil, err
		}
		opts := testOptions(Channel(channel))
		opts.Runtime = os.Getenv(envRuntime)
		return New(opts)
	})
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp(filepath.Dir(privateDir("", self())), "bct")
	if err == nil {
		err = os.Setenv(envRun, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func testOptions(channel Channel) Options {
	return Options{
		Host: os.Getenv(envHost), Channel: channel, Version: filepath.Base(ourRun()),
		SocketDir: ourRun(), ReapGrace: time.Nanosecond,
	}
}

// ourRun is the directory that all processes of this run of the tests use for
// sockets. Its name also labels their containers, so that other users of the
// daemon and of the machine do not disturb what the tests count.
func ourRun() string { return os.Getenv(envRun) }

// missing skips what this machine cannot test, except in CI, where nothing may
// be missing.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// needDaemon skips without a daemon and an image.
func needDaemon(t *testing.T) (image string) {
	t.Helper()
	e, err := New(testOptions(ChannelAuto))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := e.Check(ctx); err != nil {
		missing(t, "no Docker daemon to test with: %v", err)
	}
	image = os.Getenv(envImage)
	if image == "" {
		missing(t, "%s names no image", envImage)
	}
	if has, err := e.HasImage(ctx, image); err != nil || !has {
		missing(t, "the image %s is not there (%v)", image, err)
	}
	return image
}

func testAPI(t *testing.T) *client.Client {
	t.Helper()
	api, err := client.NewClientWithOpts(client.WithHostFromEnv(), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	return api
}

// left lists our containers, and the directories of sockets.
func left(api *client.Client) ([]string, error) {
	list, err := api.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelVersion+"="+filepath.Base(ourRun())))})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, c := range list {
		all = append(all, "container "+c.ID)
	}
	dirs, err := filepath.Glob(filepath.Join(ourRun(), "biocage-*"))
	for _, dir := range dirs {
		if _, err := parseOwnerDir(filepath.Base(dir)); err == nil {
			all = append(all, sandboxtest.Reapable+dir)
		}
	}
	return all, err
}

// processesOf finds a container's processes by their control group.
func processesOf(s sandbox.Sandbox) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), s.ID()) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func TestEngine(t *testing.T) {
	image := needDaemon(t)
	api := testAPI(t)
	for _, run := range []struct {
		name    string
		channel Channel
	}{{"auto", ChannelAuto}, {"stdio", ChannelStdio}} {
		t.Run(run.name, func(t *testing.T) {
			t.Setenv(envChannel, strconv.Itoa(int(run.channel)))
			sandboxtest.Run(t, sandboxtest.Options{
				New:  func() (sandbox.Engine, error) { return New(testOptions(run.channel)) },
				Root: sandbox.Root{Image: image},
				PIDs: processesOf,
				Left: func() ([]string, error) { return left(api) },
				Dead: func(t *testing.T) string { return deadContainer(t, api, image) },
				Promise: sandboxtest.Promise{
					Caps: true, Seccomp: true, UID: true,
					Namespaces:       []string{"mnt", "pid", "net", "ipc", "uts", "cgroup"},
					MemoryKillsChild: true, OOMCounted: true, InitImmune: true,
					ReadOnlyRoot: true, NoExec: true, NoSetID: true,
				},
			})
		})
	}
}

// gVisor as the daemon's runtime, where the daemon has it: the first process
// is root inside, and user code another user.
func TestEngineRunsc(t *testing.T) {
	image := needDaemon(t)
	api := testAPI(t)
	opts := testOptions(ChannelAuto)
	opts.Runtime = runsc
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	err = e.Check(t.Context())
	_ = e.Close()
	if err != nil {
		missing(t, "the daemon has no runtime runsc: %v", err)
	}
	t.Setenv(envChannel, "0")
	t.Setenv(envRuntime, runsc)
	sandboxtest.Run(t, sandboxtest.Options{
		New:     func() (sandbox.Engine, error) { return New(opts) },
		Root:    sandbox.Root{Image: image},
		Left:    func() ([]string, error) { return left(api) },
		Dead:    func(t *testing.T) string { return deadContainer(t, api, image) },
		Promise: sandboxtest.Promise{InitImmune: true, NoExec: true},
	})
}

// deadContainer makes a container that a process which has ended would own.
func deadContainer(t *testing.T, api *client.Client, image string) string {
	t.Helper()
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	o := self()
	o.pid, o.start = gone.Process.Pid, "1"
	name := fmt.Sprintf("biocage-test-dead-%d", time.Now().UnixNano())
	made, err := api.ContainerCreate(context.Background(),
		&container.Config{Image: image, Cmd: []string{"sleep", "600"}, Labels: map[string]string{labelOwner: o.String(), labelInstance: "dead", labelVersion: filepath.Base(ourRun())}},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = api.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true})
	})
	if err := api.ContainerStart(context.Background(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	return "container " + made.ID
}
