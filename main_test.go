package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/biocypher/biocage-mcp/environment"
	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/sandbox/gvisor"
)

func TestMain(m *testing.M) {
	gvisor.Dispatch()
	testscript.Main(m, map[string]func(){"biocage": main, janitorName: main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("BIOCAGE_DATA_DIR", filepath.Join(env.WorkDir, "data"))
			return nil
		},
	})
}

// A served biocage is a process with pipes, as an MCP host starts it.
type served struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	stderr *bytes.Buffer
	ended  chan error
}

func startServer(t *testing.T, environ ...string) *served {
	t.Helper()
	link := filepath.Join(t.TempDir(), "biocage") // testscript.Main goes by the name
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, cmd: exec.Command(link, "serve"), lines: make(chan string, 1000), stderr: &bytes.Buffer{}, ended: make(chan error, 1)}
	s.cmd.Env = append(os.Environ(), environ...)
	s.cmd.Stderr = s.stderr
	s.stdin, err = s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewReader(stdout)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				close(s.lines)
				s.ended <- s.cmd.Wait()
				return
			}
			s.lines <- line
		}
	}()
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

func (s *served) request(line string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
	select {
	case answer := <-s.lines:
		return answer
	case <-time.After(2 * time.Minute):
		s.t.Fatalf("no answer; standard error:\n%s", s.stderr)
		return ""
	}
}

// run calls python_run and gives the result object.
func (s *served) run(code string) map[string]any {
	s.t.Helper()
	params, err := json.Marshal(map[string]any{"name": "python_run", "arguments": map[string]any{"code": code}})
	if err != nil {
		s.t.Fatal(err)
	}
	answer := s.request(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, params))
	var decoded struct {
		Result struct {
			Meta map[string]map[string]any `json:"_meta"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(answer), &decoded); err != nil || decoded.Result.Meta["biocage/result"] == nil {
		s.t.Fatalf("%v: %s", err, answer)
	}
	return decoded.Result.Meta["biocage/result"]
}

// end waits for the process, which must not take long.
func (s *served) end(within time.Duration) {
	s.t.Helper()
	begin := time.Now()
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("the server ended with %v:\n%s", err, s.stderr)
		}
		if took := time.Since(begin); took > within {
			s.t.Errorf("the server took %s to end:\n%s", took, s.stderr)
		}
	case <-time.After(30 * time.Second):
		s.t.Fatalf("the server did not end:\n%s", s.stderr)
	}
}

func TestServerWithoutEnvironment(t *testing.T) {
	s := startServer(t, "BIOCAGE_DATA_DIR="+t.TempDir(), "BIOCAGE_ENGINE=gvisor")
	res := s.run("1")
	e, ok := res["error"].(map[string]any)
	if !ok || e["kind"] != "sandbox" || !strings.Contains(fmt.Sprint(e["message"]), "biocage env build") {
		t.Errorf("result: %v", res)
	}
	if err := s.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
}

func TestSignalsEndTheServer(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			s := startServer(t, "BIOCAGE_DATA_DIR="+t.TempDir(), "BIOCAGE_ENGINE=gvisor")
			s.request(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			if err := s.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			s.end(5 * time.Second)
		})
	}
}

// A client that goes away without a word must not kill the server before it
// has cleaned up: SIGPIPE is ignored and the write error ends it.
func TestClosedOutputEndsTheServer(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "biocage")
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, link, "serve")
	cmd.Env = append(os.Environ(), "BIOCAGE_DATA_DIR="+t.TempDir(), "BIOCAGE_ENGINE=gvisor")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// needEnvironment skips where no environment has been built or gVisor cannot
// run (a test binary built with cgo, for one), and gives the setting that finds
// the environment.
func needEnvironment(t *testing.T) string {
	t.Helper()
	p := process{environ: os.Environ()}
	dir := p.getenv("BIOCAGE_DATA_DIR")
	if dir == "" {
		dir = environment.DefaultDataDir(os.Geteuid(), p.getenv)
	}
	cfg := config.Default()
	cfg.DataDir = dir
	h := host{p: p, cfg: cfg, log: newLogger(io.Discard, cfg.Log)}
	store, err := h.store(nil)
	if err == nil {
		_, err = store.Find(environment.DefaultName)
	}
	if err != nil {
		t.Skipf("no environment in %s (%v); run: biocage env build", dir, err)
	}
	engine, err := h.gvisor()
	if err == nil {
		err = errors.Join(engine.Check(t.Context()), engine.Close())
	}
	if err != nil {
		t.Skipf("gVisor cannot be used: %v", err)
	}
	return "BIOCAGE_DATA_DIR=" + dir
}

func TestServeKeepsState(t *testing.T) {
	s := startServer(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor")
	if res := s.run("x = 6"); res["success"] != true {
		t.Fatalf("result: %v\n%s", res, s.stderr)
	}
	if res := s.run("x * 7"); res["result"] != "42" {
		t.Errorf("result: %v", res)
	}
	if err := s.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
}

// A signal ends a script; what it wrote before is passed on.
func TestRunOnceInterrupted(t *testing.T) {
	dataDir := needEnvironment(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "biocage")
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	shared := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, link, "run", "--expose", shared+":/data/d:rw", "-")
	cmd.Env = append(os.Environ(), dataDir, "BIOCAGE_ENGINE=gvisor")
	cmd.Stdin = strings.NewReader("import time\nprint('before')\nopen('/data/d/started', 'w').close()\ntime.sleep(60)\n")
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for { // the script says when it runs
		if _, err := os.Stat(filepath.Join(shared, "started")); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("the script did not start")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 130 || stdout.String() != "before\n" {
		t.Errorf("%v, stdout %q", err, stdout.String())
	}
}

// once runs `biocage run` in this process.
func once(t *testing.T, stdin string, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	p := process{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errOut, environ: append(os.Environ(), environ...)}
	code = run(t.Context(), p, append([]string{"--engine", "gvisor", "run"}, args...))
	return out.String(), errOut.String(), code
}

func TestRunOnce(t *testing.T) {
	environ := []string{needEnvironment(t)}
	shared, out := t.TempDir(), filepath.Join(t.TempDir(), "new", "out")
	if err := os.WriteFile(filepath.Join(shared, "in.txt"), []byte("from the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	code := `
import os, sys
print("hi"); print("warn", file=sys.stderr)
print(open("/data/in.txt").read())
os.makedirs("a/b"); open("a/b/out.txt", "w").write("made inside")
os.symlink("/etc/passwd", "a/link")
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.show()
sys.exit(3)
`
	stdout, stderr, exit := once(t, code, environ, "--expose", filepath.Join(shared, "in.txt")+":/data/in.txt", "--out", out, "-")
	if stdout != "hi\nfrom the host\n" || !strings.Contains(stderr, "warn\n") || exit != 3 {
		t.Errorf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
	made, err := os.ReadFile(filepath.Join(out, "a", "b", "out.txt"))
	if err != nil || string(made) != "made inside" {
		t.Errorf("collected %q, %v", made, err)
	}
	image, err := os.ReadFile(filepath.Join(out, "image-1.png"))
	if err != nil || !bytes.HasPrefix(image, []byte("\x89PNG")) {
		t.Errorf("image: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(out, "a", "link")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link was collected: %v", err)
	}
}

func TestRunOnceVariants(t *testing.T) {
	environ := []string{needEnvironment(t)}
	t.Run("code from the environment, as JSON", func(t *testing.T) {
		stdout, _, exit := once(t, "", append(environ, "PYTHON_CODE=6*7"), "--json")
		var res map[string]any
		if err := json.Unmarshal([]byte(stdout), &res); err != nil || res["result"] != "42" || exit != 0 {
			t.Errorf("exit %d: %v: %s", exit, err, stdout)
		}
	})
	t.Run("the whole of a long output", func(t *testing.T) {
		stdout, _, exit := once(t, "for i in range(40000): print(i)", environ)
		lines := strings.Split(stdout, "\n")
		if exit != 0 || len(lines) != 40001 || lines[20000] != "20000" {
			t.Errorf("exit %d, %d lines", exit, len(lines))
		}
	})
	t.Run("an exception", func(t *testing.T) {
		_, stderr, exit := once(t, "1/0", environ)
		if exit != 1 || !strings.Contains(stderr, "ZeroDivisionError: division by zero") {
			t.Errorf("exit %d, stderr %q", exit, stderr)
		}
	})
	t.Run("a time limit", func(t *testing.T) {
		_, stderr, exit := once(t, "while True: pass", environ, "--timeout", "1s")
		if exit != 124 || !strings.Contains(stderr, "limit of 1 s") {
			t.Errorf("exit %d, stderr %q", exit, stderr)
		}
	})
}
