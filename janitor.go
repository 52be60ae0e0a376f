package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/biocypher/biocage-mcp/internal/config"
)

// A server that is killed cannot clean up. Its sandboxes end with it, but what
// they were made of stays: directories, control groups, a container that was
// just being created. The janitor is a second process of this program that
// waits for the end of the first, of which it learns by the end of a pipe, and
// then removes what dead servers left. One that ended in order dismisses it.
type janitor struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

const (
	janitorName = "biocage-janitor" // its argv[0]; it is no command of the command line
	dismissal   = "dismissed"
	// dismissWithin bounds the janitor's own end.
	dismissWithin = time.Second
)

// sweeps are when the janitor looks, after the server's end: a daemon may
// still finish what it was asked for, and a zombie counts as alive.
func sweeps() []time.Duration {
	return []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second}
}

// isJanitor tells whether this process was started as one.
func isJanitor(args []string) bool { return len(args) == 2 && args[0] == janitorName }

// startJanitor starts one for the engine. It has a session of its own, so that
// what ends the server's does not end it.
func startJanitor(ctx context.Context, p process, engine string) (*janitor, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self) //nolint:gosec // this very program
	cmd.Args = []string{janitorName, engine}
	cmd.Env = p.environ
	cmd.Dir = "/"
	detach(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the janitor: %w", err), pipe.Close())
	}
	return &janitor{cmd: cmd, pipe: pipe}, nil
}

// ownProgram is this very program, even when its file was replaced since.
func ownProgram() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link, nil
	}
	return os.Executable()
}

// dismiss ends the janitor without work, and waits for it.
func (j *janitor) dismiss() error {
	_, err := io.WriteString(j.pipe, dismissal)
	err = errors.Join(err, j.pipe.Close())
	late := time.AfterFunc(dismissWithin, func() { _ = j.cmd.Process.Kill() })
	defer late.Stop()
	if err = errors.Join(err, j.cmd.Wait()); err != nil {
		return fmt.Errorf("dismiss the janitor: %w", err)
	}
	return nil
}

// janitorMain gives the janitor's exit code. Nobody reads its errors: what it
// could not remove, the next server finds and tells.
func janitorMain(ctx context.Context, p process, engine string) int {
	if err := runJanitor(ctx, p, engine); err != nil {
		return exitFailure
	}
	return exitOK
}

// runJanitor is the janitor's life.
func runJanitor(ctx context.Context, p process, engine string) error {
	word, err := io.ReadAll(io.LimitReader(p.stdin, int64(len(dismissal))))
	if err != nil || string(word) == dismissal {
		return err
	}
	h := host{p: p, cfg: config.Default(), log: newLogger(io.Discard, config.Default().Log)}
	h.cfg.Engine = engine
	begin := time.Now()
	var errs []error
	for _, at := range sweeps() {
		time.Sleep(at - time.Since(begin))
		errs = append(errs, h.sweep(ctx))
	}
	return errors.Join(errs...)
}

// sweep removes what dead servers left.
func (h host) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := h.choose(ctx)
	if err != nil {
		return err
	}
	_, err = c.engine.Reap(ctx)
	return errors.Join(err, c.engine.Close())
}
