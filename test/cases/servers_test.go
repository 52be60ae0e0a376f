package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// look remembers what the server owns, as long as it lives.
func (p *party) look() error {
	if !p.alive() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return p.watch.Look(ctx)
}

// leftovers tells what a server that ended left on the machine.
func (p *party) leftovers(patience time.Duration) error {
	left, _, err := p.watch.Gone(context.Background(), patience)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left on the machine after %v:\n%s", patience, strings.Join(left, "\n"))
	}
	return nil
}

func verbKillServer(r *runner, st *step) (answers, error) {
	var args struct {
		Signal string `json:"signal"`
	}
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	signals := map[string]syscall.Signal{
		"": syscall.SIGKILL, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM,
		"INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	}
	signal, known := signals[strings.TrimPrefix(args.Signal, "SIG")]
	if !known {
		return answers{}, fmt.Errorf("signal %q is not understood", args.Signal)
	}
	p, err := r.party(st.own())
	if err != nil {
		return answers{}, err
	}
	if err := p.look(); err != nil {
		return answers{}, err
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return answers{}, err
	}
	if signal == syscall.SIGKILL {
		p.exits(10 * time.Second)
		// What a killed server leaves is removed by the next one at its start.
		p.skipEnd = true
		r.leave(p.name)
	}
	return nothing(), nil
}

// sandboxes counts the sandboxes of a server that lives.
func (p *party) sandboxes(ctx context.Context, r *runner) (int, error) {
	pid := p.cmd.Process.Pid
	if r.bed.engine == "docker" {
		out, err := r.docker(ctx, "ps", "--all", "--quiet", "--filter", "label=io.biocage.owner",
			"--format", `{{.Label "io.biocage.owner"}}`)
		return strings.Count("\n"+out, fmt.Sprintf("\n%d:", pid)), err
	}
	found := 0
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, path := range children {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the thread ended
		}
		for child := range strings.FieldsSeq(string(raw)) {
			if command, _ := os.ReadFile("/proc/" + child + "/cmdline"); strings.HasPrefix(string(command), "runsc-sandbox\x00") {
				found++
			}
		}
	}
	return found, nil
}

// verbContainersBack wants nothing of the servers that are gone, and of those
// that live no more than the one session and the sandbox kept ready for the next.
func verbContainersBack(r *runner, st *step) (answers, error) {
	var args struct {
		Within float64 `json:"within_seconds"`
	}
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	allowed := 2
	if r.conf.IdleTimeout > 0 {
		allowed = 1
	}
	within := seconds(args.Within)
	return nothing(), until(within, func(ctx context.Context) error {
		for name, p := range r.clients {
			n, err := p.sandboxes(ctx, r)
			if err != nil {
				return err
			}
			if n > allowed {
				return fmt.Errorf("the server of client %s has %d sandboxes, at most %d are expected", name, n, allowed)
			}
		}
		for _, p := range r.gone {
			if !p.exits(0) {
				return fmt.Errorf("the server of client %s still runs", p.name)
			}
			if left, err := p.watch.Left(ctx); err != nil || len(left) > 0 {
				return errors.Join(err, fmt.Errorf("the server of client %s left:\n%s", p.name, strings.Join(left, "\n")))
			}
		}
		return nil
	})
}

func (r *runner) docker(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// A sessionState is what session_info tells.
type sessionState struct {
	SandboxID string `json:"sandbox_id"`
}

func (p *party) session() (sessionState, error) {
	var body struct {
		Meta struct {
			Result sessionState `json:"biocage/result"`
		} `json:"_meta"`
	}
	id, err := p.sendTool("session_info", []byte("{}"))
	if err != nil {
		return sessionState{}, err
	}
	got, err := p.await(id, time.Minute)
	if err != nil {
		return sessionState{}, err
	}
	if err := json.Unmarshal(got.msg.Result, &body); err != nil {
		return sessionState{}, fmt.Errorf("session_info: %w", err)
	}
	return body.Meta.Result, nil
}

// warmUp gives the session its sandbox. What a case does to a call in the
// background, it does a fixed time after it was sent; on a slow machine the
// sandbox would still be starting then.
func (p *party) warmUp() error {
	id, err := p.sendTool("file_list", []byte("{}"))
	if err != nil {
		return err
	}
	_, err = p.await(id, time.Minute)
	return err
}

// onContainer does something from outside to the session's sandbox: by the
// docker command, or by a signal to gVisor's kernel process.
func onContainer(words ...string) verb {
	signals := map[string]syscall.Signal{
		"kill": syscall.SIGKILL, "rm": syscall.SIGKILL, "pause": syscall.SIGSTOP,
	}
	return func(r *runner, st *step) (answers, error) {
		name, err := st.clientName()
		if err != nil {
			return answers{}, err
		}
		p, err := r.party(name)
		if err != nil {
			return answers{}, err
		}
		if words[0] == "unpause" {
			return nothing(), r.unpause(p)
		}
		state, err := p.session()
		if err != nil {
			return answers{}, err
		}
		if state.SandboxID == "" {
			return answers{}, errors.New("the session has no sandbox")
		}
		if words[0] == "pause" {
			p.paused = state.SandboxID
		}
		if r.bed.engine == "docker" {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := r.docker(ctx, append(words, state.SandboxID)...)
			return nothing(), err
		}
		return nothing(), signalSandbox(state.SandboxID, signals[words[0]])
	}
}

// unpause lets the paused sandbox go on, unless the server gave it up meanwhile.
func (r *runner) unpause(p *party) error {
	if p.paused == "" {
		return errors.New("no sandbox was paused")
	}
	if r.bed.engine != "docker" {
		if err := signalSandbox(p.paused, syscall.SIGCONT); !errors.Is(err, errNoSandbox) {
			return err
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := r.docker(ctx, "unpause", p.paused)
	if err != nil && strings.Contains(err.Error(), "No such container") {
		return nil
	}
	return err
}

var errNoSandbox = errors.New("no process of the sandbox")

// signalSandbox finds the sandbox's kernel process by its command.
func signalSandbox(id string, signal syscall.Signal) error {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range commands {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the process ended
		}
		command := string(raw)
		if strings.HasPrefix(command, "runsc-sandbox\x00") && strings.Contains(command, id) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				return err
			}
			return syscall.Kill(pid, signal)
		}
	}
	return fmt.Errorf("%w %s", errNoSandbox, id)
}

type crowd struct {
	Count   int     `json:"count"`
	Code    string  `json:"code"`
	Timeout float64 `json:"timeout_seconds"`
}

// verbParallelClients runs the code in new clients at once.
func verbParallelClients(r *runner, st *step) (answers, error) {
	var args crowd
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	var calls []*pending
	for i := range args.Count {
		p, err := r.party(fmt.Sprintf("parallel %d", i))
		if err != nil {
			return answers{}, err
		}
		calls = append(calls, r.begin(p, "python_run", codeArgs(args.Code, args.Timeout)))
	}
	var got answers
	for _, call := range calls {
		out, err := call.wait()
		if err != nil {
			return answers{}, fmt.Errorf("client %s: %w", call.party.name, err)
		}
		got.add(out)
	}
	for i := range args.Count {
		name := fmt.Sprintf("parallel %d", i)
		if err := r.clients[name].look(); err != nil {
			return answers{}, err
		}
		r.clients[name].closeInput()
		r.leave(name)
	}
	return got, nil
}

// verbSessionsInTurn runs the code in new clients, one after another.
func verbSessionsInTurn(r *runner, st *step) (answers, error) {
	var args crowd
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	var got answers
	for i := range args.Count {
		name := fmt.Sprintf("turn %d", i)
		p, err := r.party(name)
		if err != nil {
			return answers{}, err
		}
		out, err := r.begin(p, "python_run", codeArgs(args.Code, args.Timeout)).wait()
		if err != nil {
			return answers{}, fmt.Errorf("client %s: %w", name, err)
		}
		got.add(out)
		if err := p.look(); err != nil {
			return answers{}, err
		}
		p.closeInput()
		r.leave(name)
	}
	return got, nil
}
