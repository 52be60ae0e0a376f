package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A verb plays a step of the harness.
type verb func(r *runner, st *step) (answers, error)

// harnessVerbs is the vocabulary of calls that are not sent as tools.
func harnessVerbs() map[string]verb {
	return map[string]verb{
		"h.wait": verbWait, "h.join": verbJoin, "h.cancel": verbCancel, "h.notify_cancelled": verbNotify,
		"h.connect": verbConnect, "h.disconnect": verbDisconnect, "h.close_stdin": verbCloseInput,
		"h.kill_server": verbKillServer, "h.start_server": verbConnect, "h.server_exits": verbServerExits,
		"h.container_kill":    onContainer("kill"),
		"h.container_remove":  onContainer("rm", "--force"),
		"h.container_pause":   onContainer("pause"),
		"h.container_unpause": onContainer("unpause"),

		"h.containers_back_to_baseline": verbContainersBack,
		"h.server_fds_back_to_baseline": verbFDsBack,

		"h.daemon_restart": onDaemon("stop", "start"),
		"h.daemon_stop":    onDaemon("stop"),
		"h.daemon_start":   onDaemon("start"),
		"h.host_write":     onHost(hostWrite), "h.host_replace": onHost(hostReplace), "h.host_delete": onHost(hostDelete),
		"h.host_symlink": onHost(hostSymlink), "h.host_mkdir": onHost(hostMkdir), "h.host_mkfifo": onHost(hostMkfifo),
		"h.host_truncate": onHost(hostTruncate), "h.host_many": onHost(hostMany), "h.host_read": onHost(hostRead),
		"h.host_exists": onHost(hostExists), "h.host_stat": onHost(hostStat),
		"h.parallel_clients": verbParallelClients, "h.sessions_in_turn": verbSessionsInTurn,
		"h.check_clock": verbCheckClock, "h.stdout_is_jsonrpc_only": verbOnlyProtocol,
	}
}

// nothing is the outcome of a verb that has none.
func nothing() answers {
	out := &outcome{call: "h"}
	return answers{first: out, all: []*outcome{out}}
}

func verbWait(_ *runner, st *step) (answers, error) {
	var args struct {
		Seconds float64 `json:"seconds"`
	}
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	time.Sleep(seconds(args.Seconds))
	return nothing(), nil
}

func (r *runner) named(st *step) (*pending, error) {
	var args struct {
		Name string `json:"name"`
	}
	if err := st.decode(&args); err != nil {
		return nil, err
	}
	call := r.calls[args.Name]
	if call == nil {
		return nil, fmt.Errorf("no background call %q", args.Name)
	}
	return call, nil
}

func verbJoin(r *runner, st *step) (answers, error) {
	call, err := r.named(st)
	if err != nil {
		return answers{}, err
	}
	out, err := call.wait()
	if err != nil {
		return answers{}, err
	}
	return answers{party: call.party, first: out, all: []*outcome{out}}, nil
}

func verbCancel(r *runner, st *step) (answers, error) {
	call, err := r.named(st)
	if err != nil {
		return answers{}, err
	}
	close(call.cancelled)
	return nothing(), call.party.notifyCancelled(int(call.request.Load()))
}

func verbNotify(r *runner, st *step) (answers, error) {
	var args struct {
		RequestID any `json:"request_id"`
	}
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	p, err := r.party(st.own())
	if err != nil {
		return answers{}, err
	}
	id, isNumber := args.RequestID.(float64)
	switch {
	case isNumber:
	case args.RequestID == "last":
		p.mu.Lock()
		id = float64(p.last)
		p.mu.Unlock()
	default:
		return answers{}, fmt.Errorf("request_id %v is not understood", args.RequestID)
	}
	return nothing(), p.notifyCancelled(int(id))
}

func (c *client) notifyCancelled(id int) error {
	return c.write(fmt.Appendf(nil,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"the user changed their mind"}}`, id))
}

// clientName reads the name from the arguments, or from the step.
func (st *step) clientName() (string, error) {
	var args struct {
		Client string `json:"client"`
	}
	if err := st.decode(&args); err != nil {
		return "", err
	}
	if args.Client != "" {
		return args.Client, nil
	}
	return st.own(), nil
}

func verbConnect(r *runner, st *step) (answers, error) {
	name, err := st.clientName()
	if err != nil {
		return answers{}, err
	}
	if p := r.clients[name]; p != nil && !p.alive() {
		r.leave(name)
	}
	_, err = r.party(name)
	return nothing(), err
}

// verbDisconnect is a client that goes away: its ends of the pipes close.
func verbDisconnect(r *runner, st *step) (answers, error) {
	name, err := st.clientName()
	if err != nil {
		return answers{}, err
	}
	p := r.clients[name]
	if p == nil {
		return answers{}, fmt.Errorf("client %s is not connected", name)
	}
	if err := p.look(); err != nil {
		return answers{}, err
	}
	p.closeInput()
	r.leave(name)
	return nothing(), nil
}

func verbCloseInput(r *runner, st *step) (answers, error) {
	p, err := r.party(st.own())
	if err != nil {
		return answers{}, err
	}
	if err := p.look(); err != nil {
		return answers{}, err
	}
	p.closeInput()
	return nothing(), nil
}

func verbServerExits(r *runner, st *step) (answers, error) {
	var args struct {
		Within float64 `json:"within_seconds"`
	}
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	name := st.own()
	p := r.clients[name]
	if p == nil {
		return answers{}, fmt.Errorf("client %s is not connected", name)
	}
	if !p.exits(seconds(args.Within)) {
		return answers{}, fmt.Errorf("the server still runs after %v s", args.Within)
	}
	r.leave(name)
	return nothing(), nil
}

func verbOnlyProtocol(r *runner, _ *step) (answers, error) {
	for _, p := range r.clients {
		if stray := p.strayLines(); len(stray) > 0 {
			return answers{}, errors.New(strings.Join(stray, "\n"))
		}
	}
	return nothing(), nil
}

func verbCheckClock(r *runner, st *step) (answers, error) {
	var args struct {
		Skew float64 `json:"max_skew_seconds"`
		Code string  `json:"code"`
	}
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	p, err := r.party(st.own())
	if err != nil {
		return answers{}, err
	}
	sent := time.Now()
	out, err := r.begin(p, "python_run", codeArgs(args.Code, 0)).wait()
	if err != nil {
		return answers{}, err
	}
	if out.run == nil {
		return answers{}, errors.New(out.brief())
	}
	told, err := strconv.ParseFloat(strings.TrimSpace(out.run.Stdout), 64)
	if err != nil {
		return answers{}, fmt.Errorf("the code told no time: %w", err)
	}
	at := time.UnixMicro(int64(told * 1e6))
	skew := seconds(args.Skew)
	if at.Before(sent.Add(-skew)) || at.After(time.Now().Add(skew)) {
		return answers{}, fmt.Errorf("the sandbox says %v, the host %v", at, sent)
	}
	return answers{party: p, first: out, all: []*outcome{out}}, nil
}

func codeArgs(code string, timeout float64) []byte {
	args := map[string]any{"code": code}
	if timeout > 0 {
		args["timeout_seconds"] = timeout
	}
	text, err := json.Marshal(args)
	if err != nil {
		panic(err) // a text and a number always have a form
	}
	return text
}

// onDaemon plays the words on the test bed's own Docker daemon.
func onDaemon(words ...string) verb {
	return func(r *runner, _ *step) (answers, error) {
		for _, word := range words {
			if err := r.bed.daemon.do(word); err != nil {
				return answers{}, err
			}
		}
		return nothing(), nil
	}
}

// until polls until look finds nothing wrong.
func until(within time.Duration, look func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within+20*time.Second)
	defer cancel()
	for begin := time.Now(); ; {
		err := look(ctx)
		if err == nil || time.Since(begin) > within {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func verbFDsBack(r *runner, st *step) (answers, error) {
	var args struct {
		Slack int `json:"slack"`
	}
	if err := st.decode(&args); err != nil {
		return answers{}, err
	}
	p, err := r.party(st.own())
	if err != nil {
		return answers{}, err
	}
	return nothing(), until(15*time.Second, func(context.Context) error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", p.cmd.Process.Pid)); err != nil {
			return fmt.Errorf("the server is gone: %w", err)
		}
		if now := p.countFDs(); now > p.fds+args.Slack {
			return fmt.Errorf("%d descriptors are open, %d were at first", now, p.fds)
		}
		return nil
	})
}
