package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// serverTools are the tools that a case may call.
var serverTools = map[string]bool{
	"python_run": true, "python_wait": true, "file_write": true, "file_read": true, "file_list": true,
	"file_expose": true, "session_reset": true, "session_info": true,
}

// A pending call is on its way in a goroutine of its own.
type pending struct {
	party     *party
	request   atomic.Int64 // the id that a cancellation names
	cancelled chan struct{}
	done      chan struct{}
	out       *outcome // set before done is closed
	err       error
}

// slack is what a server may need beyond the time limit of the code: a first
// start, an escalation, a loaded machine.
const slack = 150 * time.Second

// begin sends a call. The request is written before begin returns, so that
// calls keep their order.
func (r *runner) begin(p *party, tool string, args []byte) *pending {
	call := &pending{party: p, cancelled: make(chan struct{}), done: make(chan struct{})}
	sent := time.Now()
	id, err := p.sendTool(tool, args)
	call.request.Store(int64(id))
	go func() {
		defer close(call.done)
		if err == nil {
			call.out, err = call.follow(tool, id, sent.Add(limitOf(args)+slack))
		}
		if call.out != nil {
			call.out.seconds = time.Since(sent).Seconds()
			call.out.progress = p.progressOf(id)
		}
		call.err = err
	}()
	return call
}

func limitOf(args []byte) time.Duration {
	var given struct {
		Timeout float64 `json:"timeout_seconds"`
	}
	if json.Unmarshal(args, &given) != nil || given.Timeout <= 0 {
		return 30 * time.Second
	}
	return seconds(given.Timeout)
}

// follow waits for the answer, and for the rest of a run that outlasted it.
func (call *pending) follow(tool string, id int, until time.Time) (*outcome, error) {
	for {
		got, err := call.await(id, until)
		if err != nil {
			return nil, err
		}
		out, err := readAnswer(tool, got)
		if err != nil {
			return nil, fmt.Errorf("%w\n    %.600s", err, got.line)
		}
		if out.run == nil || out.run.Status != "running" {
			return out, nil
		}
		if id, err = call.party.sendTool("python_wait", fmt.Appendf(nil, `{"run_id":%q}`, out.run.RunID)); err != nil {
			return nil, err
		}
		call.request.Store(int64(id))
	}
}

// await waits for one answer. A cancelled request need not be answered: then
// the lack of an answer is the answer.
func (call *pending) await(id int, until time.Time) (reply, error) {
	type result struct {
		got reply
		err error
	}
	answered := make(chan result, 1)
	go func() {
		got, err := call.party.await(id, time.Until(until))
		answered <- result{got, err}
	}()
	select {
	case res := <-answered:
		return res.got, res.err
	case <-call.cancelled:
	}
	select {
	case res := <-answered:
		return res.got, res.err
	case <-time.After(10 * time.Second):
		return silence()
	}
}

// silence stands for the answer that a cancelled request did not get.
func silence() (reply, error) {
	line := []byte(`{"jsonrpc":"2.0","id":0,"result":{"content":[{"type":"text","text":"cancelled; the server did not answer, as the protocol wants it"}],` +
		`"isError":true,"_meta":{"biocage/result":{"success":false,"status":"done","error":{"kind":"cancelled"}}}}}`)
	var msg message
	err := json.Unmarshal(line, &msg)
	return reply{line: line, msg: msg}, err
}

func (call *pending) wait() (*outcome, error) {
	<-call.done
	if call.err == nil && call.party.fds == 0 {
		call.party.fds = call.party.countFDs()
	}
	return call.out, call.err
}

// countFDs counts the server's descriptors; 0 when it is gone.
func (p *party) countFDs() int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		return 0 // it ended
	}
	return len(entries)
}
