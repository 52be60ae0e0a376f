//go:build unix

package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/biocypher/biocage-mcp/internal/dockerproxy"
	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/sandboxtest"
)

func newFaultyDaemon(t *testing.T) *dockerproxy.Proxy {
	t.Helper()
	behind := os.Getenv(envHost)
	if behind == "" {
		behind = client.DefaultDockerHost
	}
	p, err := dockerproxy.New(t.Context(), behind)
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

func faultySpec(t *testing.T, image string) sandbox.Spec {
	t.Helper()
	agent := t.TempDir()
	// As the agent starts, and no more.
	const source = `
import json, os, socket, struct, sys
secret = b""
while len(secret) < 32: secret += os.read(0, 32 - len(secret))
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1].split(":", 1)[1])
link.sendall(secret)
text = json.dumps({"type": "kernel_info", "protocol": 1}).encode()
link.sendall(struct.pack(">II", len(text), 0) + text)
while os.read(0, 100): pass
`
	if err := errors.Join(os.WriteFile(filepath.Join(agent, "a.py"), []byte(source), 0o644), os.Chmod(agent, 0o755)); err != nil {
		t.Fatal(err)
	}
	return sandbox.Spec{
		Root: sandbox.Root{Image: image}, Session: "faults", Agent: agent,
		Command: []string{"python3", "-I", sandbox.AgentDir + "/a.py"}, Env: sandboxtest.Env(),
		Limits: sandbox.Limits{MemoryBytes: 128 << 20, CPUs: 1, PIDs: 32, DiskBytes: 8 << 20},
	}
}

func replace(before, after string) func(*http.Response) error {
	return func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		body = bytes.Replace(body, []byte(before), []byte(after), 1)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		r.Header.Del("Content-Length")
		return nil
	}
}

// Whatever a daemon does, Create answers in time, says why, and leaves nothing.
func TestCreateOnFaultyDaemon(t *testing.T) {
	image := needDaemon(t)
	api := testAPI(t)
	f := newFaultyDaemon(t)
	spec := faultySpec(t, image)
	for name, test := range map[string]struct {
		fault dockerproxy.Fault
		is    error
		says  string
	}{
		"list fails":          {dockerproxy.Fault{Method: "GET", Path: "/containers/json", Before: dockerproxy.Status(500, "boom")}, nil, "boom"},
		"create fails":        {dockerproxy.Fault{Method: "POST", Path: "/containers/create", Before: dockerproxy.Status(500, "no space left on device")}, sandbox.ErrExhausted, "no space"},
		"create answer lost":  {dockerproxy.Fault{Method: "POST", Path: "/containers/create", After: dockerproxy.Drop}, nil, "create sandbox"},
		"create slow":         {dockerproxy.Fault{Method: "POST", Path: "/containers/create", Before: dockerproxy.Slow(3 * time.Second)}, context.DeadlineExceeded, ""},
		"attach fails":        {dockerproxy.Fault{Method: "POST", Path: "/attach", Before: dockerproxy.Status(500, "boom")}, nil, "attach"},
		"attach slow":         {dockerproxy.Fault{Method: "POST", Path: "/attach", Before: dockerproxy.Slow(3 * time.Second)}, context.DeadlineExceeded, ""},
		"wait slow":           {dockerproxy.Fault{Method: "POST", Path: "/wait", Before: dockerproxy.Slow(3 * time.Second)}, context.DeadlineExceeded, ""},
		"wait fails":          {dockerproxy.Fault{Method: "POST", Path: "/wait", Before: dockerproxy.Status(500, "boom")}, nil, "wait: "},
		"attach answer lost":  {dockerproxy.Fault{Method: "POST", Path: "/attach", After: dockerproxy.Drop}, nil, "attach"},
		"start fails":         {dockerproxy.Fault{Method: "POST", Path: "/start", Before: dockerproxy.Status(500, "boom")}, nil, "start"},
		"start answer lost":   {dockerproxy.Fault{Method: "POST", Path: "/start", After: dockerproxy.Drop}, nil, "start"},
		"start slow":          {dockerproxy.Fault{Method: "POST", Path: "/start", Before: dockerproxy.Slow(3 * time.Second)}, context.DeadlineExceeded, ""},
		"inspect fails":       {dockerproxy.Fault{Method: "GET", Path: dockerproxy.Inspect, Before: dockerproxy.Status(500, "boom")}, nil, "boom"},
		"limits not applied":  {dockerproxy.Fault{Method: "GET", Path: dockerproxy.Inspect, After: replace(`"PidsLimit":32`, `"PidsLimit":0`)}, errPosture, "HostConfig.PidsLimit"},
		"privileged":          {dockerproxy.Fault{Method: "GET", Path: dockerproxy.Inspect, After: replace(`"Privileged":false`, `"Privileged":true`)}, errPosture, "HostConfig.Privileged"},
		"seccomp not applied": {dockerproxy.Fault{Method: "GET", Path: dockerproxy.Inspect, After: replace(`seccomp=`, `label=`)}, errPosture, "HostConfig.SecurityOpt"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := left(api)
			if err != nil {
				t.Fatal(err)
			}
			opts := testOptions(ChannelAuto)
			opts.Host = f.Host()
			e, err := New(opts)
			if err != nil {
				t.Fatal(err)
			}
			f.Set(&test.fault)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			if _, err = e.Create(ctx, spec); err == nil {
				t.Fatal("created")
			}
			if took := time.Since(start); took > cleanupCall {
				t.Errorf("told after %v", took)
			}
			if f.Met() == 0 {
				t.Fatalf("the fault was not met: %v", err)
			}
			if (test.is != nil && !errors.Is(err, test.is)) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("create: %v; want %v and %q", err, test.is, test.says)
			}
			f.Set(nil)
			if err := e.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			after, err := left(api)
			if err != nil {
				t.Fatal(err)
			}
			if len(after) > len(before) {
				t.Errorf("left: %v", after)
			}
		})
	}
}

// A daemon that vanishes ends the sandbox for its owner, and the container
// ends with the stream although no daemon removes it.
func TestDaemonVanishes(t *testing.T) {
	image := needDaemon(t)
	api := testAPI(t)
	f := newFaultyDaemon(t)
	opts := testOptions(ChannelAuto)
	opts.Host = f.Host()
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	before, err := left(api)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Create(t.Context(), faultySpec(t, image))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Hang(); err != nil {
		t.Fatal(err)
	}
	// Hijacked streams outlive the server; the wait for the end does not.
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Fatal("the end of the daemon was not noticed")
	}
	if exit := s.Exit(); !strings.Contains(exit.Reason, "daemon") {
		t.Errorf("exit %+v, want a word about the daemon", exit)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, sandbox.ErrUnavailable) {
		t.Errorf("close: %v, want ErrUnavailable", err)
	}
	if err := e.Check(ctx); !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "systemctl start docker") {
		t.Errorf("check: %v", err)
	}
	if _, err := e.Create(ctx, faultySpec(t, image)); !errors.Is(err, sandbox.ErrUnavailable) {
		t.Errorf("create: %v, want ErrUnavailable", err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		after, err := left(api)
		if err != nil {
			t.Fatal(err)
		}
		if len(after) <= len(before)+1 { // the engine's directory of sockets
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", after)
		}
	}
}

// The events of the daemon come late or not at all: sandboxes work without.
func TestEventsHang(t *testing.T) {
	image := needDaemon(t)
	f := newFaultyDaemon(t)
	hang := make(chan struct{})
	f.Set(&dockerproxy.Fault{Method: "GET", Path: "/events", Before: func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return true
	}})
	defer close(hang)
	opts := testOptions(ChannelAuto)
	opts.Host = f.Host()
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := e.Create(ctx, faultySpec(t, image))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A stream of events that breaks is taken up where it broke: no memory kill
// is missed, none is counted twice.
func TestEventsBreak(t *testing.T) {
	now := time.Now().Add(time.Hour).UnixNano() // later than the watcher's start
	event := func(action string, at int64) string {
		return fmt.Sprintf(`{"Type":"container","Action":%q,"Actor":{"ID":"c1"},"timeNano":%d}`, action, at)
	}
	var (
		mu    sync.Mutex
		since []string // guarded by mu
	)
	streams := [][]string{
		{event("oom", now), event("oom", now+1)},
		{event("oom", now+1), event("oom", now+2), event("die", now+3)},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			w.Header().Set("Api-Version", "1.41")
			return
		}
		mu.Lock()
		since = append(since, r.URL.Query().Get("since"))
		n := len(since)
		mu.Unlock()
		if n <= len(streams) {
			_, _ = io.WriteString(w, strings.Join(streams[n-1], "\n"))
			return
		}
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	api, err := client.NewClientWithOpts(client.WithHost(strings.Replace(server.URL, "http", "tcp", 1)), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher(api, "i", slog.New(slog.DiscardHandler))
	w.track("c1")
	if got := w.oomsAtEnd("c1", 30*time.Second); got != 3 {
		t.Errorf("%d memory kills, want 3", got)
	}
	if got := w.oomsAtEnd("other", time.Second); got != -1 {
		t.Errorf("%d memory kills of an unknown container, want -1", got)
	}
	w.close()
	w.close()
	mu.Lock()
	defer mu.Unlock()
	if want := fmt.Sprintf("%d.%09d", (now+1)/1e9, (now+1)%1e9); len(since) < 2 || since[1] != want {
		t.Errorf("taken up at %v, want %s", since, want)
	}
}
