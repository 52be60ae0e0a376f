package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/remains"
)

// A server is a process of ours with a client of mcp-go's.
type server struct {
	client *client.Client
	cmd    *exec.Cmd
	wire   *wire
	watch  *remains.Watch
	ended  chan struct{}
	failed error // how it ended; valid after ended
}

// start runs a server and says hello; what the test leaves is killed.
func (l lab) start(t *testing.T) *server {
	t.Helper()
	s := &server{ended: make(chan struct{}), wire: &wire{}}
	s.cmd = exec.Command(l.binary, "serve", "--config", l.config(t, settings{warm: 1}))
	// A directory of its own for temporary files: another server must not
	// remove what this one leaves. Short, as sockets are made in it.
	temp, err := os.MkdirTemp("", "bc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(temp); err != nil {
			t.Error(err)
		}
	})
	s.cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var log lockedBuffer
	s.cmd.Stderr = &log
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Not StdoutPipe, which Wait closes: the last words count as well.
	out, in := io.Pipe()
	s.cmd.Stdout = io.MultiWriter(s.wire, in)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.failed = s.cmd.Wait()
		_ = in.Close() // a pipe's Close never fails
		close(s.ended)
	}()
	s.watch = l.watch(s.cmd.Process.Pid, temp)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // most have ended
		<-s.ended
		if t.Failed() {
			t.Logf("the server's log ends:\n%s", tail(log.String(), 40))
		}
	})
	s.client = client.NewClient(transport.NewIO(out, stdin, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "interop", Version: "1"}
	hello.Params.ProtocolVersion = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	if _, err := s.client.Initialize(ctx, hello); err != nil {
		t.Fatalf("initialize: %v\n%s", err, log.String())
	}
	return s
}

// call calls a tool and gives its result object.
func (s *server) call(ctx context.Context, name string, args map[string]any) (json.RawMessage, error) {
	var request mcp.CallToolRequest
	request.Params.Name = name
	request.Params.Arguments = args
	res, err := s.client.CallTool(ctx, request)
	if err != nil {
		return nil, err
	}
	return json.Marshal(res.Meta.AdditionalFields["biocage/result"])
}

// python runs code and gives its result object; the call must be answered.
func (s *server) python(t *testing.T, code string) run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	raw, err := s.call(ctx, "python_run", map[string]any{"code": code})
	if err != nil {
		t.Fatalf("python_run: %v", err)
	}
	return parse[run](t, raw)
}

// look remembers what the living server owns.
func (s *server) look(t *testing.T) {
	t.Helper()
	raw, err := s.call(t.Context(), "session_info", map[string]any{})
	if err != nil {
		t.Fatalf("session_info: %v", err)
	}
	s.watch.Note(parse[struct {
		SandboxID string `json:"sandbox_id"`
	}](t, raw).SandboxID)
	if err := s.watch.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if procs, boxes := s.watch.Seen(); procs == 0 || boxes == 0 {
		t.Fatalf("the watch sees %d processes and %d sandboxes of a server that runs code", procs, boxes)
	}
}

// endsWithin checks that the process ends with exit code 0 in time.
func (s *server) endsWithin(t *testing.T, limit time.Duration) {
	t.Helper()
	begin := time.Now()
	select {
	case <-s.ended:
		if s.failed != nil {
			t.Errorf("the server did not end well: %v", s.failed)
		}
		t.Logf("the server ended after %.2f s", time.Since(begin).Seconds())
	case <-time.After(limit):
		t.Errorf("the server still runs after %v", limit)
	}
}

// nothingLeft checks that all is gone in time.
func (s *server) nothingLeft(t *testing.T, limit time.Duration) {
	t.Helper()
	left, took, err := s.watch.Gone(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, thing := range left {
		t.Errorf("left after %v: %s", limit, thing)
	}
	procs, boxes := s.watch.Seen()
	t.Logf("%d processes and %d sandboxes were gone after %.2f s", procs, boxes, took.Seconds())
}

func (s *server) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// A wire sees each message that the server writes.
type wire struct {
	mu    sync.Mutex
	rest  []byte   // guarded by mu
	lines [][]byte // guarded by mu
}

// Write implements io.Writer.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.lines = append(w.lines, bytes.Clone(line))
		w.rest = bytes.Clone(rest)
	}
}

// messages are the whole lines so far.
func (w *wire) messages() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([][]byte(nil), w.lines...)
}

// A lockedBuffer may be read while a process writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String gives what was written so far.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
