package web

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var heavy = flag.Bool("heavy", false, "attack with the numbers of real floods")

// often is how often something is done: few times, or many with -heavy.
func often(few, many int) int {
	if *heavy {
		return many
	}
	return few
}

// The tokens of two clients.
const (
	adaToken = "ada-0123456789abcdef-0123456789abcdef"
	bobToken = "bob-0123456789abcdef-0123456789abcdef"
)

// binary is the program under test.
func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("these tests run the program; they do not run with -short")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("BIOCAGE_TEST_BINARY"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		return path
	}
	path := filepath.Join(root, "build", "web", "biocage")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=jsonv2")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the binary: %v\n%s", err, out)
	}
	return path
}

// needEngine skips a test that runs code where gVisor does not work.
func needEngine(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary(t), "doctor", "--engine", "gvisor").CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("gVisor does not work here: %v\n%s", err, out)
	default:
		t.Skipf("gVisor does not work here: %v\n%s", err, out)
	}
}

// A server is a process of ours that serves over HTTP.
type server struct {
	t       *testing.T
	address string // HOST:PORT
	temp    string
	cmd     *exec.Cmd
	log     *lockedBuffer
	ended   chan struct{}
	failed  error // how it ended; valid after ended
}

// start runs a server, whose configuration may be added to; at the end of the
// test it must end well.
func start(t *testing.T, config map[string]any) *server {
	t.Helper()
	program := binary(t)
	s := &server{t: t, temp: shortDir(t), log: &lockedBuffer{}, ended: make(chan struct{})}
	content := map[string]any{
		"engine":  "gvisor",
		"session": map[string]any{"warm": 0, "max": 40},
		"server":  map[string]any{"tokens": []string{"ada:" + adaToken, "bob:" + bobToken}},
	}
	maps.Copy(content, config)
	s.cmd = exec.Command(program, "serve", "--transport", "http", "--listen", "127.0.0.1:0", "--config", write(t, content))
	s.cmd.Env = append(os.Environ(), "TMPDIR="+s.temp)
	s.cmd.Stderr = s.log
	var stdout lockedBuffer
	s.cmd.Stdout = &stdout
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.failed = s.cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.end(20 * time.Second)
		if out := stdout.String(); out != "" {
			t.Errorf("a server over HTTP wrote to standard output: %.500q", out)
		}
		if log := s.log.String(); strings.Contains(log, "panic") {
			t.Errorf("the server panicked")
		}
		if t.Failed() {
			t.Logf("the server's log ends:\n%s", last(s.log.String(), 6000))
		}
	})
	address := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/mcp`)
	for range 300 {
		if found := address.FindStringSubmatch(s.log.String()); found != nil {
			s.address = found[1]
			return s
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the server does not say where it listens:\n%s", s.log.String())
	return nil
}

// end ends the server with SIGTERM; it must end well and in time.
func (s *server) end(within time.Duration) {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // an error tells that it has ended
	select {
	case <-s.ended:
		if s.failed != nil {
			s.t.Errorf("the server did not end well: %v", s.failed)
		}
	case <-time.After(within):
		_ = s.cmd.Process.Kill() // the test has failed
		<-s.ended
		s.t.Errorf("the server did not end within %v", within)
	}
}

func write(t *testing.T, content map[string]any) string {
	t.Helper()
	text, err := json.Marshal(content) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "biocage.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shortDir is a directory in which sockets can be made.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// figure is a number of /metrics.
func (s *server) figure(name string) float64 {
	s.t.Helper()
	got := s.send(request{method: http.MethodGet, path: "/metrics", token: bobToken})
	for line := range strings.Lines(got.body) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return value
		}
	}
	s.t.Fatalf("/metrics has no %s: %d %.300s", name, got.status, got.body)
	return 0
}

// memory is a line of /proc/PID/status in bytes.
func (s *server) memory(name string) int64 {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Skipf("no /proc: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return kib << 10
		}
	}
	s.t.Fatalf("no %s in /proc/PID/status", name)
	return 0
}

// dial opens a bare connection, which ends with the test.
func (s *server) dial() net.Conn {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.address, 10*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() }) // may be closed
	return c
}

// A request is what a client sends; zero values are those of a good client.
type request struct {
	method, path string // POST /mcp
	token        string // ada's; "-" sends none
	host         string
	body         string
	headers      []string // name, value, ...; the value "-" sends none
	ctx          context.Context
}

// A response is the whole answer.
type response struct {
	status int
	body   string
	header http.Header
	err    error
}

// try sends a request and gives the answer or the error.
func (s *server) try(q request) response {
	if q.method == "" {
		q.method = http.MethodPost
	}
	if q.path == "" {
		q.path = "/mcp"
	}
	if q.token == "" {
		q.token = adaToken
	}
	if q.ctx == nil {
		q.ctx = s.t.Context()
	}
	ctx, cancel := context.WithTimeout(q.ctx, 90*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, "http://"+s.address+q.path, bytes.NewReader([]byte(q.body)))
	if err != nil {
		return response{err: err}
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if q.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.token != "-" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	r.Host = q.host
	for i := 0; i+1 < len(q.headers); i += 2 {
		if r.Header.Del(q.headers[i]); q.headers[i+1] != "-" {
			r.Header.Set(q.headers[i], q.headers[i+1])
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return response{err: err}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return response{status: answer.StatusCode, body: string(body), header: answer.Header, err: err}
}

// send sends a request that must be answered.
func (s *server) send(q request) response {
	s.t.Helper()
	got := s.try(q)
	if got.err != nil {
		s.t.Fatalf("%s %s: %v", q.method, q.path, got.err)
	}
	return got
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"web","version":"1"}}}`

// begin opens a protocol session and gives its id.
func (s *server) begin(token string) string {
	s.t.Helper()
	got := s.send(request{token: token, body: hello})
	id := got.header.Get("Mcp-Session-Id")
	if got.status != http.StatusOK || id == "" {
		s.t.Fatalf("initialize: %d %s", got.status, got.body)
	}
	return id
}

// served checks that a good client is served in time.
func (s *server) served(within time.Duration) {
	s.t.Helper()
	begin := time.Now()
	id := s.begin(bobToken)
	got := s.send(request{token: bobToken, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, headers: []string{"Mcp-Session-Id", id}})
	if got.status != http.StatusOK || !strings.Contains(got.body, "python_run") {
		s.t.Errorf("a good client is not served: %d %.300s", got.status, got.body)
	}
	s.send(request{method: http.MethodDelete, token: bobToken, headers: []string{"Mcp-Session-Id", id}})
	if took := time.Since(begin); took > within {
		s.t.Errorf("a good client was served after %v, not within %v", took, within)
	}
}

// call is a message that runs code, in the sandbox of a handle if there is one.
func call(id, code, handle string) string {
	args := map[string]string{"code": code}
	if handle != "" {
		args["session"] = handle
	}
	encoded, _ := json.Marshal(args) // strings can be encoded
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"python_run","arguments":%s}}`, id, encoded)
}

// modern is a call of the revision without sessions.
func modern(id, code, handle string) request {
	body := strings.TrimSuffix(call(id, code, handle), "}}") +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"web","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	return request{body: body, headers: []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "python_run"}}
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

// last is the end of a text.
func last(text string, n int) string {
	if len(text) > n {
		return "..." + text[len(text)-n:]
	}
	return text
}
