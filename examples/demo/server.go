package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/remains"
)

// Bounds of what a host waits for.
const (
	helloWithin = 10 * time.Second // the shortest start-up time of known hosts
	callWithin  = 2 * time.Minute
	stopWithin  = 5 * time.Second
	goneWithin  = 10 * time.Second
)

// A server is a running `biocage serve` and the connection to it.
type server struct {
	client  *client.Client
	hello   *mcp.InitializeResult
	took    time.Duration // from the start to the answer to initialize
	logPath string

	runtimeDir string
	cmd        *exec.Cmd
	log        *os.File
	config     string
	ended      chan struct{} // closed when the process has ended
	failed     error         // how it ended; valid after ended
	wait       sync.Once
}

// start does what a host does: it writes the configuration, starts the
// program with pipes, and says hello.
func start(ctx context.Context, opts options) (_ *server, err error) {
	s := &server{runtimeDir: opts.runtimeDir, logPath: filepath.Join(opts.out, "server.log"), ended: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.kill())
		}
	}()
	if s.config, err = writeConfig(opts); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(s.logPath); err != nil {
		return nil, fmt.Errorf("cannot make the server's log: %w", err)
	}
	begin := time.Now()
	if err := s.spawn(ctx, opts); err != nil {
		return nil, err
	}
	hello, cancel := context.WithTimeout(ctx, helloWithin)
	defer cancel()
	if err := s.client.Start(hello); err != nil {
		return nil, fmt.Errorf("cannot talk to the server: %w", err)
	}
	var request mcp.InitializeRequest
	request.Params.ClientInfo = mcp.Implementation{Name: "biocage-demo", Version: "1"}
	request.Params.ProtocolVersion = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	if s.hello, err = s.client.Initialize(hello, request); err != nil {
		return nil, fmt.Errorf("the server did not answer initialize (its log is %s): %w", s.logPath, err)
	}
	s.took = time.Since(begin)
	return s, nil
}

// spawn starts the process. The end of the context does not kill it: only
// stop and kill do, so that it can clean up.
func (s *server) spawn(ctx context.Context, opts options) error {
	//nolint:gosec // the person at the keyboard names the program
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), opts.binary, "serve", "--config", s.config)
	s.cmd.Stderr = s.log
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("cannot start the server; build it with make build: %w", err)
	}
	s.client = client.NewClient(transport.NewIO(stdout, stdin, nil))
	return nil
}

// stop ends the input, which asks the server to leave, and waits for it.
func (s *server) stop() (time.Duration, error) {
	begin := time.Now()
	if err := s.client.Close(); err != nil {
		return 0, errors.Join(fmt.Errorf("cannot close the connection: %w", err), s.kill())
	}
	s.wait.Do(s.reap)
	select {
	case <-s.ended:
	case <-time.After(stopWithin):
		return time.Since(begin), errors.Join(
			fmt.Errorf("the server still ran %v after its input had ended", stopWithin), s.kill())
	}
	took := time.Since(begin)
	if s.failed != nil {
		return took, errors.Join(fmt.Errorf("the server did not end well: %w", s.failed), s.release())
	}
	return took, s.release()
}

// reap waits for the process in the background. Nothing of its output is
// wanted any more: Wait closes it.
func (s *server) reap() {
	go func() {
		s.failed = s.cmd.Wait()
		close(s.ended)
	}()
}

// kill is the end of a server that did not do as it should.
func (s *server) kill() error {
	if s.cmd == nil {
		return s.release()
	}
	err := s.cmd.Process.Kill()
	s.wait.Do(s.reap)
	<-s.ended
	return errors.Join(err, s.release())
}

func (s *server) release() error {
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.config != "" {
		errs = append(errs, os.Remove(s.config))
	}
	return errors.Join(errs...)
}

// watch is for what this server may leave behind.
func (s *server) watch(engine string) *remains.Watch {
	return remains.New(remains.Options{
		PID:    s.cmd.Process.Pid,
		Docker: engine == "docker",
		Dirs:   remains.RunDirs(os.Geteuid(), s.runtimeDir, os.TempDir()),
	})
}

// canWatch: without /proc nothing can be told of processes.
func canWatch() bool { return runtime.GOOS == "linux" }

// writeConfig allows the data directory to be exposed, read-only. JSON is YAML.
func writeConfig(opts options) (string, error) {
	text, err := json.MarshalIndent(map[string]any{
		"engine": opts.engine,
		"expose": map[string]any{"roots": []map[string]string{{"path": opts.data, "mode": "ro"}}},
		"log":    map[string]string{"level": "debug"},
	}, "", "  ")
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "biocage-demo-*.yaml")
	if err != nil {
		return "", fmt.Errorf("cannot write the configuration: %w", err)
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("cannot write the configuration: %w", err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}
