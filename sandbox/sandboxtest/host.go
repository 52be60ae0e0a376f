//go:build unix

package sandboxtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// hostName is the program name under which the test binary is a host.
const hostName = "biocage-suite-host"

// HostProcess must be the first call in TestMain of a package that runs the
// suite. When the suite started this binary as a host that is going to be
// killed, it makes an engine and two sandboxes, tells so on standard output,
// and never returns; else it does nothing.
func HostProcess(newEngine func() (sandbox.Engine, error)) {
	if os.Args[0] != hostName {
		return
	}
	if err := hostSandboxes(newEngine); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	select {} // until the suite's SIGKILL
}

func hostSandboxes(newEngine func() (sandbox.Engine, error)) error {
	var spec sandbox.Spec
	if err := json.Unmarshal([]byte(os.Args[1]), &spec); err != nil {
		return fmt.Errorf("read spec: %w", err)
	}
	engine, err := newEngine()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range 2 {
		s, err := engine.Create(ctx, spec)
		if err != nil {
			return err
		}
		if _, err := ReadFrame(s.Stream()); err != nil {
			return fmt.Errorf("read from sandbox: %w", err)
		}
		if i == 1 { // one idle, one that does not want to die
			const deaf = "import os, signal\nfor i in range(20):\n    if os.fork() == 0: os.setsid(); break\n" +
				"for n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass"
			if err := WriteFrame(s.Stream(), map[string]any{"type": "eval_request", "id": 1}, []byte(deaf)); err != nil {
				return fmt.Errorf("write to sandbox: %w", err)
			}
		}
	}
	fmt.Println("ready")
	return nil
}

// startHost runs this test binary as a host with two sandboxes.
func (s *suite) startHost(t *testing.T) *exec.Cmd {
	t.Helper()
	spec, err := json.Marshal(s.spec())
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command("/proc/self/exe")
	host.Args = []string{hostName, string(spec)}
	host.Env = os.Environ()
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	})
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		said <- strings.TrimSpace(line)
	}()
	select {
	case line := <-said:
		if line != "ready" {
			t.Fatalf("the host process said %q; TestMain must call sandboxtest.HostProcess first", line)
		}
	case <-time.After(2 * patience):
		t.Fatal("the host process did not start")
	}
	return host
}

// testHostKilled: nothing is left of the sandboxes of a killed server.
func (s *suite) testHostKilled(t *testing.T, e sandbox.Engine) {
	if s.Left == nil {
		t.Log("does not apply: what this engine leaves cannot be listed")
		return
	}
	own := s.create(t, e) // a living owner's sandbox, which must stay
	with := s.left(t)
	host := s.startHost(t)
	if after := s.left(t); len(after) < len(with)+2 {
		t.Fatalf("the host's two sandboxes are not listed: %v", after)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	start := time.Now()
	eventually(t, 10*time.Second, func() string {
		for item := range s.left(t) {
			if !with[item] && !strings.HasPrefix(item, Reapable) {
				return item + " is left of a killed host"
			}
		}
		return ""
	})
	t.Logf("gone %v after the host", time.Since(start).Round(10*time.Millisecond))
	if _, err := e.Reap(context.Background()); err != nil {
		t.Errorf("reap: %v", err)
	}
	s.nothingNew(t, with)
	own.stillWorks()
}

// Reapable begins a word of Options.Left for what costs nothing, such as an
// empty directory, and may stay until the next Reap when a host is killed.
const Reapable = "reapable: "

// testReap: Reap takes what the dead left and nothing of the living.
func (s *suite) testReap(t *testing.T, e sandbox.Engine) {
	if s.Dead == nil || s.Left == nil {
		t.Log("does not apply: this engine leaves nothing to reap")
		return
	}
	own := s.create(t, e)
	host := s.startHost(t)
	living := s.left(t)
	word := s.Dead(t)
	if !s.left(t)[word] {
		t.Fatalf("%q is not listed", word)
	}
	reaped, err := e.Reap(context.Background())
	if err != nil {
		t.Fatalf("reap: %v", err)
	}
	if reaped < 1 {
		t.Errorf("reaped %d, want at least 1", reaped)
	}
	after := s.left(t)
	if after[word] {
		t.Errorf("%q is still there", word)
	}
	for item := range living {
		if !after[item] {
			t.Errorf("reap took %q, which a living process owns", item)
		}
	}
	own.stillWorks()
	closeBox(t, own)
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	eventually(t, 10*time.Second, func() string {
		if _, err := e.Reap(context.Background()); err != nil {
			return err.Error()
		}
		return ""
	})
}
