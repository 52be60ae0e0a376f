//go:build unix

package docker

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/biocypher/biocage-mcp/pyagent"
	"github.com/biocypher/biocage-mcp/sandbox"
)

func realSpec(t testing.TB, image string) sandbox.Spec {
	t.Helper()
	agent, err := pyagent.Install(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	return sandbox.Spec{
		Root: sandbox.Root{Image: image}, Session: "real", Agent: agent.Dir,
		Command: pyagent.Command("python3", sandbox.AgentDir),
		Env:     []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/work", "LANG=C.UTF-8"},
		Limits:  sandbox.Limits{MemoryBytes: 256 << 20, CPUs: 1, PIDs: 64, DiskBytes: 32 << 20},
	}
}

// The agent itself, over both channels.
func TestRealAgent(t *testing.T) {
	image := needDaemon(t)
	stdio, gvisor := testOptions(ChannelStdio), testOptions(ChannelAuto)
	gvisor.Runtime = runsc
	for name, opts := range map[string]Options{"socket": testOptions(ChannelAuto), "stdio": stdio, "runsc": gvisor} {
		t.Run(name, func(t *testing.T) {
			e, err := New(opts)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := e.Check(ctx); err != nil {
				missing(t, "this cannot be tested here: %v", err)
			}
			s, err := e.Create(ctx, realSpec(t, image))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(ctx); err != nil {
					t.Error(err)
				}
			}()
			conn := pyagent.NewConn(s.Stream())
			defer func() { _ = conn.Close() }()
			if _, err := conn.Hello(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Start(ctx, pyagent.StartRequest{}); err != nil {
				t.Fatal(err)
			}
			data := []byte(strings.Repeat("x", 1<<20))
			if _, err := conn.WriteFile(ctx, pyagent.WriteFileRequest{Path: "in.bin", Mode: "create"}, data); err != nil {
				t.Fatal(err)
			}
			got, err := conn.ReadFile(ctx, "in.bin", 0, 1<<20)
			if err != nil || string(got.Data) != string(data) {
				t.Errorf("read back %d bytes, %v", len(got.Data), err)
			}
			const rounds = 200
			times := make([]time.Duration, 0, rounds)
			for range rounds {
				start := time.Now()
				run, err := conn.Execute(pyagent.ExecuteRequest{Code: "x = 1", MaxOutput: 1000}, nil)
				if err != nil {
					t.Fatal(err)
				}
				<-run.Done()
				if reply, err := run.Reply(); err != nil || reply.Status != "ok" {
					t.Fatalf("reply %+v, %v", reply, err)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			t.Logf("cell round trip: min %v, p50 %v, p95 %v", times[0], times[rounds/2], times[rounds*95/100])
		})
	}
}

// The memory limit that ends the first process itself is told as such, from
// what the daemon saw.
func TestExitByMemory(t *testing.T) {
	image := needDaemon(t)
	e, err := New(testOptions(ChannelStdio))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	spec := realSpec(t, image)
	spec.Command = []string{"python3", "-c", "import time\ntime.sleep(0.5)\nx = b'x' * (1 << 30)"}
	s, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.WithoutCancel(t.Context())) }()
	if _, err := io.Copy(io.Discard, s.Stream()); err != nil {
		t.Errorf("stream ends with %v, want its end", err)
	}
	<-s.Done()
	if exit := s.Exit(); !exit.OOMKilled || exit.Code != 137 || exit.Closed {
		t.Errorf("exit %+v, want OOMKilled with code 137", exit)
	}
}

// A program that is not there, or fails, is told with what it said.
func TestAgentFails(t *testing.T) {
	image := needDaemon(t)
	e, err := New(testOptions(ChannelAuto))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	spec := realSpec(t, image)
	spec.Command = []string{"python3", "-c", "raise SystemExit('the agent is broken')"}
	start := time.Now()
	_, err = e.Create(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "the agent is broken") {
		t.Errorf("create: %v, want what the agent said", err)
	}
	if took := time.Since(start); took > agentConnect {
		t.Errorf("told after %v", took)
	}
	spec.Command = []string{"no-such-python"}
	if _, err := e.Create(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "no-such-python") {
		t.Errorf("create: %v, want a word about the program", err)
	}
}

// An image that declares a volume would bring a writable place that nobody
// decided on.
func TestImageWithVolumeRefused(t *testing.T) {
	image := needDaemon(t)
	e, err := New(testOptions(ChannelAuto))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	const ref = "biocage-test-volume:latest"
	tar, err := e.ExportImage(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.ImportImage(t.Context(), ref, tar, []string{"VOLUME /stash", "ENV FROM_IMAGE=1"}); err != nil {
		t.Fatal(err)
	}
	if err := tar.Close(); err != nil {
		t.Errorf("close export: %v", err)
	}
	if has, err := e.HasImage(t.Context(), ref); err != nil || !has {
		t.Errorf("has image: %v, %v", has, err)
	}
	_, err = e.Create(t.Context(), realSpec(t, ref))
	if err == nil || !strings.Contains(err.Error(), "Config.Volumes") {
		t.Errorf("create: %v, want a word about volumes", err)
	}
	for range 2 { // the second time it is not there
		if err := e.RemoveImage(t.Context(), ref); err != nil {
			t.Errorf("remove image: %v", err)
		}
	}
	if has, err := e.HasImage(t.Context(), ref); err != nil || has {
		t.Errorf("has removed image: %v, %v", has, err)
	}
	list, err := left(testAPI(t))
	if err != nil || slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, "container") }) {
		t.Errorf("left: %v (%v)", list, err)
	}
}

// What the daemon's statistics tell agrees with the kernel's files.
func TestStatsOfTheDaemon(t *testing.T) {
	image := needDaemon(t)
	e, err := New(testOptions(ChannelStdio))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	spec := realSpec(t, image)
	spec.Command = []string{"python3", "-c", "x = b'x' * (64 << 20)\nimport sys\nprint(1, flush=True)\nsys.stdin.read()"}
	made, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s := made.(*Sandbox)
	defer func() { _ = s.Close(context.WithoutCancel(t.Context())) }()
	if _, err := io.ReadFull(s.Stream(), make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if s.groups == nil {
		missing(t, "the daemon is elsewhere")
	}
	kernel, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told, err := s.askStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := told.MemoryBytes - kernel.MemoryBytes; diff < -8<<20 || diff > 8<<20 {
		t.Errorf("daemon %+v, kernel %+v", told, kernel)
	}
	if told.PIDs != kernel.PIDs || told.OOMKills != 0 || kernel.OOMKills != 0 {
		t.Errorf("daemon %+v, kernel %+v", told, kernel)
	}
}

// Containers say whose they are.
func TestLabels(t *testing.T) {
	image := needDaemon(t)
	e, err := New(testOptions(ChannelStdio))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	spec := realSpec(t, image)
	spec.Command = []string{"python3", "-c", "import sys; sys.stdin.read()"}
	s, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.WithoutCancel(t.Context())) }()
	var got container.InspectResponse
	if got, err = testAPI(t).ContainerInspect(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	labels := got.Config.Labels
	for _, name := range []string{labelInstance, labelSession, labelOwner, labelCreated, labelVersion, labelUID} {
		if labels[name] == "" {
			text, _ := json.Marshal(labels)
			t.Errorf("no label %s in %s", name, text)
		}
	}
	if o, err := parseOwner(labels[labelOwner]); err != nil || o.pid != os.Getpid() {
		t.Errorf("owner %+v, %v", o, err)
	}
}

// The full network reaches the host's side of the bridge.
func TestNetworkFull(t *testing.T) {
	image := needDaemon(t)
	bridge, err := testAPI(t).NetworkInspect(t.Context(), "bridge", network.InspectOptions{})
	if err != nil || len(bridge.IPAM.Config) == 0 || bridge.IPAM.Config[0].Gateway == "" {
		missing(t, "the daemon has no bridge (%v)", err)
	}
	listener, err := net.Listen("tcp", bridge.IPAM.Config[0].Gateway+":0")
	if err != nil {
		missing(t, "the daemon's bridge is elsewhere: %v", err)
	}
	defer func() { _ = listener.Close() }()
	e, err := New(testOptions(ChannelStdio))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	spec := realSpec(t, image)
	spec.Network = sandbox.NetworkFull
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	spec.Command = []string{"python3", "-c", "import socket, sys\nsocket.create_connection(('" + host + "', " + port + ")).sendall(b'hi')\nsys.stdin.read()"}
	s, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.WithoutCancel(t.Context())) }()
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if got, err := io.ReadAll(io.LimitReader(conn, 2)); err != nil || string(got) != "hi" {
		t.Errorf("read %q, %v", got, err)
	}
}
