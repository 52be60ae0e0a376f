package mcptest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxLine bounds one message of a server: far above any answer it may give.
const maxLine = 64 << 20

// ErrEnded is the error of calls that the server's end left unanswered.
var ErrEnded = errors.New("the server has ended")

// Options say what to start.
type Options struct {
	Binary string
	Args   []string
	Env    []string // the whole environment
	Dir    string

	// Capabilities are what the client says it can do; nil is nothing.
	Capabilities map[string]any
	// Answer answers what the server asks; nil refuses everything.
	Answer func(method string, params json.RawMessage) (any, error)
}

// A Server is a running process and the connection to it.
type Server struct {
	opts   Options
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr record
	write  sync.Mutex // one message at a time
	nextID atomic.Int64
	done   chan struct{} // closed when the process has ended and was read to its end

	mu      sync.Mutex
	waiting map[int64]*Pending
	foreign []string // lines on standard output that are no JSON-RPC answer or notification
	exit    error
}

// Start runs the server and says hello.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Capabilities == nil {
		opts.Capabilities = map[string]any{}
	}
	s := &Server{opts: opts, waiting: map[int64]*Pending{}, done: make(chan struct{})}
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), opts.Binary, opts.Args...) //nolint:gosec // tests name the binary
	s.cmd.Env, s.cmd.Dir, s.cmd.Stderr = opts.Env, opts.Dir, &s.stderr
	s.cmd.WaitDelay = 5 * time.Second
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	go s.read(stdout)
	if err := s.initialize(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log:\n%s", err, s.Stderr()), s.Kill())
	}
	return s, nil
}

func (s *Server) initialize(ctx context.Context) error {
	_, err := s.Call(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-06-18",
		"capabilities":    s.opts.Capabilities,
		"clientInfo":      map[string]any{"name": "mcptest", "version": "1"},
	})
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	return s.Notify("notifications/initialized", nil)
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stderr is what the server logged so far.
func (s *Server) Stderr() string { return s.stderr.String() }

// Foreign lists what the server wrote to standard output that was no message.
func (s *Server) Foreign() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.foreign...)
}

// Ended is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.done }

// Alive tells whether the process still runs.
func (s *Server) Alive() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process.
func (s *Server) Signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

// CloseInput ends the server's standard input, as a host does that leaves.
func (s *Server) CloseInput() error { return s.stdin.Close() }

// Wait waits for the end of the process and returns what exec.Cmd.Wait did.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-s.done:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.exit
	case <-ctx.Done():
		return fmt.Errorf("the server did not end: %w", ctx.Err())
	}
}

// Close ends the server gently, and by force after ten seconds.
func (s *Server) Close() error {
	err := s.CloseInput()
	select {
	case <-s.done:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.exit
	case <-time.After(10 * time.Second):
		return errors.Join(err, errors.New("the server outlived its input by 10 s"), s.Kill())
	}
}

// Kill ends the server by force and waits for its end.
func (s *Server) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil && s.Alive() {
		return err
	}
	<-s.done
	return nil
}

// read gives every message to whoever waits for it.
func (s *Server) read(stdout io.Reader) {
	lines := bufio.NewReaderSize(io.LimitReader(stdout, 1<<40), 1<<16)
	for {
		line, err := readLine(lines)
		if len(line) > 0 {
			s.receive(line)
		}
		if err != nil {
			break
		}
	}
	err := s.cmd.Wait()
	s.mu.Lock()
	s.exit = err
	for id, p := range s.waiting {
		delete(s.waiting, id)
		p.end(nil, ErrEnded)
	}
	s.mu.Unlock()
	close(s.done)
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("a message has more than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// A message is an answer, a notification of progress or a question.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
	Params struct {
		ProgressToken int64   `json:"progressToken"`
		Progress      float64 `json:"progress"`
		Message       string  `json:"message"`
	} `json:"params"`
}

// number is the id of an answer to one of our requests, or 0.
func (m message) number() int64 {
	n, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (s *Server) receive(line []byte) {
	var m message
	err := json.Unmarshal(line, &m)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.waiting[m.number()]
	switch {
	case err == nil && m.Method == "notifications/progress":
		if p := s.waiting[m.Params.ProgressToken]; p != nil {
			p.progress = append(p.progress, Progress{Value: m.Params.Progress, Message: m.Params.Message, At: time.Now()})
		}
	case err == nil && m.Method != "":
		if len(m.ID) > 0 {
			go s.answer(m.ID, m.Method, line)
		}
	case err == nil && p != nil:
		s.settle(p, m, line)
	default:
		s.foreign = append(s.foreign, string(line))
	}
}

// settle gives an answer to whoever waits for it; the mutex is held.
func (s *Server) settle(p *Pending, m message, line []byte) {
	delete(s.waiting, p.id)
	p.line = line
	if m.Error != nil {
		p.end(nil, m.Error)
		return
	}
	p.end(m.Result, nil)
}
