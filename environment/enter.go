package environment

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

//go:embed enter.sh
var enterScript string

// systemPath is the search path of commands that run as root, inside and outside.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxToolOutput bounds what a command may answer.
const maxToolOutput = 16 << 20

// A step is one command of a build.
type step struct {
	Name    string       // for errors: "install the Python packages"
	Command []string     //
	Env     []string     // the complete environment
	Nobody  bool         // run as an unprivileged user; packages' own code only runs so
	Network bool         // share the host's network
	Line    func(string) // called with every line of standard error, and of output when Merge
	Merge   bool         // standard output goes where standard error goes
}

// A StepError is a command of a build that failed.
type StepError struct {
	Step   string
	Err    error
	Output string // its last lines
}

// Error implements error.
func (e *StepError) Error() string {
	text := e.Step + ": " + e.Err.Error()
	if e.Output != "" {
		text += ":\n" + e.Output
	}
	return text
}

// Unwrap is the cause.
func (e *StepError) Unwrap() error { return e.Err }

// A room is a tree that steps run in, with what they find at /run/build
// (support) and /run/cache (cache); all are host directories.
type room struct{ root, support, cache string }

// enter runs a step inside the tree and returns its standard output.
func (r room) enter(ctx context.Context, s step) ([]byte, error) {
	user := "root"
	if s.Nobody && canBecomeNobody() {
		user = "nobody"
	}
	args := append([]string{"-c", enterScript, "enter", r.root, user, r.support, r.cache}, s.Command...)
	return run(ctx, s, "/bin/sh", args...)
}

// run starts a command in namespaces of its own, so that its mounts and its
// processes end with it, and waits for it. Cancelling ctx kills all of it.
func run(ctx context.Context, s step, name string, args ...string) ([]byte, error) {
	// The kernel kills the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stdout capped
	lines := &lineWriter{line: s.Line}
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the builder's own commands
	cmd.Dir = "/"
	cmd.Env = s.Env
	cmd.Stderr = lines
	cmd.Stdout = &stdout
	if s.Merge {
		cmd.Stdout = lines
	}
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = namespaces(s.Network)
	err := cmd.Run()
	lines.flush()
	switch {
	case ctx.Err() != nil:
		return nil, &StepError{Step: s.Name, Err: context.Cause(ctx), Output: lines.tail()}
	case errors.Is(err, errNoNamespaces):
		return nil, &StepError{Step: s.Name, Err: fmt.Errorf("%w; %s", err, namespaceRemedy)}
	case err != nil:
		return nil, &StepError{Step: s.Name, Err: err, Output: lines.tail()}
	case stdout.over:
		return nil, &StepError{Step: s.Name, Err: fmt.Errorf("it answered more than %d bytes", maxToolOutput)}
	}
	return stdout.content.Bytes(), nil
}

// capped collects at most maxToolOutput bytes. The buffer is not embedded: its
// ReadFrom would go around the bound.
type capped struct {
	content bytes.Buffer
	over    bool
}

// Write implements io.Writer; what is too much is dropped and noted.
func (c *capped) Write(p []byte) (int, error) {
	if c.content.Len()+len(p) > maxToolOutput {
		c.over = true
		return len(p), nil
	}
	return c.content.Write(p)
}

const (
	maxLine   = 4096
	tailLines = 12
)

// lineWriter hands on what is written line by line and remembers the last ones.
type lineWriter struct {
	line    func(string)
	partial []byte
	last    []string
}

var _ io.Writer = (*lineWriter)(nil)

// Write implements io.Writer.
func (w *lineWriter) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			w.partial = append(w.partial, p[:min(len(p), maxLine-min(maxLine, len(w.partial)))]...)
			break
		}
		w.partial = append(w.partial, p[:min(end, maxLine-min(maxLine, len(w.partial)))]...)
		w.flush()
		p = p[end+1:]
	}
	return written, nil
}

func (w *lineWriter) flush() {
	text := strings.TrimSpace(strings.ToValidUTF8(string(w.partial), "�"))
	w.partial = w.partial[:0]
	if text == "" {
		return
	}
	if w.last = append(w.last, text); len(w.last) > tailLines {
		w.last = w.last[1:]
	}
	if w.line != nil {
		w.line(text)
	}
}

func (w *lineWriter) tail() string { return strings.Join(w.last, "\n") }
