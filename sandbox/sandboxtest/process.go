//go:build unix

package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Process is an Engine for tests that isolates nothing: the agent runs as an
// ordinary child process over two pipes (--channel=fd:3,4) with the user's
// rights. The workspace and the directory for temporary files are fresh
// directories below Dir; the engine writes their names into the agent's
// start_request, so that the agent can never take /work or /tmp of this
// machine for its own. The zero value is ready.
type Process struct {
	// Dir is where sandboxes keep their directories; "" is the system's
	// directory for temporary files.
	Dir string
}

var _ sandbox.Engine = (*Process)(nil)

// Name implements sandbox.Engine.
func (*Process) Name() string { return "process" }

// Capabilities implements sandbox.Engine: there are none.
func (*Process) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Isolation: "none (tests only)"}
}

// Check implements sandbox.Engine.
func (*Process) Check(context.Context) error {
	if _, err := exec.LookPath("python3"); err != nil {
		return fmt.Errorf("%w: no python3; install it: %w", sandbox.ErrUnavailable, err)
	}
	return nil
}

// Reap implements sandbox.Engine: pipes leave nothing.
func (*Process) Reap(context.Context) (int, error) { return 0, nil }

// Close implements sandbox.Engine.
func (*Process) Close() error { return nil }

// Create implements sandbox.Engine. The sandbox is a *ProcessSandbox. The
// root, the limits and the network of the spec do not matter.
func (p *Process) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if spec.Root == (sandbox.Root{}) {
		spec.Root.Dir = "/"
	}
	if err := errors.Join(spec.Validate(), ctx.Err()); err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	if len(spec.Mounts) > 0 {
		return nil, fmt.Errorf("process: mounts: %w", sandbox.ErrUnsupported)
	}
	home, err := os.MkdirTemp(p.Dir, "biocage-process-")
	if err != nil {
		return nil, fmt.Errorf("process: make directory: %w", err)
	}
	s := &ProcessSandbox{id: rand.Text(), home: home, done: make(chan struct{})}
	err = errors.Join(os.Mkdir(s.Workspace(), 0o700), os.Mkdir(s.Temp(), 0o700))
	if err == nil {
		err = s.launch(spec)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("process: start agent: %w", err), os.RemoveAll(home))
	}
	return s, nil
}

// ProcessSandbox is a sandbox of [Process].
type ProcessSandbox struct {
	id      string
	home    string
	command *exec.Cmd
	stream  *pipes
	stderr  bytes.Buffer // read after done
	closing atomic.Bool
	done    chan struct{}
	exit    sandbox.Exit // written before done is closed

	mu     sync.Mutex
	closed bool // guarded by mu; the directories are gone
}

// Workspace is the directory that the agent was told as its workspace.
func (s *ProcessSandbox) Workspace() string { return filepath.Join(s.home, "work") }

// Temp is the directory that the agent was told for temporary files.
func (s *ProcessSandbox) Temp() string { return filepath.Join(s.home, "tmp") }

func (s *ProcessSandbox) launch(spec sandbox.Spec) error {
	toAgent, hostWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	hostRead, fromAgent, err := os.Pipe()
	if err != nil {
		return errors.Join(err, toAgent.Close(), hostWrite.Close())
	}
	args := make([]string, 0, len(spec.Command)+1)
	for _, arg := range spec.Command {
		if rest, ok := strings.CutPrefix(arg, sandbox.AgentDir+"/"); ok {
			arg = filepath.Join(spec.Agent, rest)
		}
		args = append(args, arg)
	}
	args = append(args, "--channel=fd:3,4")
	s.command = exec.Command(args[0], args[1:]...)
	s.command.Dir = s.Workspace()
	s.command.Env = []string{}
	for _, pair := range spec.Env {
		if name, value, _ := strings.Cut(pair, "="); value == sandbox.WorkDir {
			pair = name + "=" + s.Workspace()
		}
		s.command.Env = append(s.command.Env, pair)
	}
	s.command.Stderr = &s.stderr
	s.command.WaitDelay = time.Second // a stray grandchild may hold standard error
	s.command.ExtraFiles = []*os.File{toAgent, fromAgent}
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = s.command.Start()
	_, _ = toAgent.Close(), fromAgent.Close()
	if err != nil {
		return errors.Join(err, hostWrite.Close(), hostRead.Close())
	}
	s.stream = &pipes{r: hostRead, w: hostWrite, start: &startRewriter{to: hostWrite, workspace: s.Workspace(), temp: s.Temp()}}
	go s.wait()
	return nil
}

// wait is the sandbox's only goroutine; done is closed when it ends.
func (s *ProcessSandbox) wait() {
	defer close(s.done)
	err := s.command.Wait()
	state := s.command.ProcessState
	s.exit = sandbox.Exit{Code: state.ExitCode(), Closed: s.closing.Load(), Reason: state.String()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		s.exit.Code = 128 + int(status.Signal())
	}
	if text := s.stderr.String(); err != nil && text != "" {
		s.exit.Reason += fmt.Sprintf("; it said %q", text)
	}
	_ = s.stream.Close() // a second close has nothing to say
}

// ID implements sandbox.Sandbox.
func (s *ProcessSandbox) ID() string { return s.id }

// Stream implements sandbox.Sandbox.
func (s *ProcessSandbox) Stream() io.ReadWriteCloser { return s.stream }

// Done implements sandbox.Sandbox.
func (s *ProcessSandbox) Done() <-chan struct{} { return s.done }

// Exit implements sandbox.Sandbox.
func (s *ProcessSandbox) Exit() sandbox.Exit { return s.exit }

// Stats implements sandbox.Sandbox from the processes below the agent's.
func (s *ProcessSandbox) Stats(context.Context) (sandbox.Stats, error) {
	select {
	case <-s.done:
		return sandbox.Stats{}, fmt.Errorf("process: %w", sandbox.ErrClosed)
	default:
	}
	tree := processTree(s.command.Process.Pid)
	stats := sandbox.Stats{OOMKills: -1, CPU: -1, PIDs: len(tree)}
	for _, pid := range tree {
		stats.MemoryBytes += residentBytes(pid)
	}
	return stats, nil
}

// Close implements sandbox.Sandbox. The agent ends its processes when its
// channel ends; what has not ended after a while is killed.
func (s *ProcessSandbox) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closing.Store(true)
	tree := processTree(s.command.Process.Pid)
	if err := s.stream.Close(); err != nil {
		return fmt.Errorf("process: close stream: %w", err)
	}
	select {
	case <-s.done:
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
	}
	for _, pid := range tree {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process: kill %d: %w", pid, err)
		}
	}
	<-s.done
	s.closed = true
	return os.RemoveAll(s.home)
}

// pipes is the agent's channel.
type pipes struct {
	r, w  *os.File
	start *startRewriter
	once  sync.Once
	err   error
}

func (p *pipes) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.start.Write(b) }

func (p *pipes) Close() error {
	p.once.Do(func() { p.err = errors.Join(p.w.Close(), p.r.Close()) })
	return p.err
}
