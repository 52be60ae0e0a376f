package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/biocypher/biocage-mcp/pyagent"
	"github.com/biocypher/biocage-mcp/sandbox"
)

// Exit codes that the contract fixes.
const (
	exitException = 1
	exitTimeout   = 124
	exitCancelled = 130
	exitKilled    = 137
)

// An outcome is all that is known of how a cell ended.
type outcome struct {
	reply pyagent.ExecuteReply
	err   error      // the connection was lost, or the agent refused
	cause *stopCause // why it was interrupted, if it was
	took  time.Duration
}

// makeResult turns an outcome into the result object.
func (s *session) makeResult(k *kernel, r *run, o outcome) RunResult {
	res := RunResult{Status: StatusDone, RunID: r.id, Session: s.handle, Files: []FileRef{}, ExecutionTime: o.took.Seconds()}
	s.fillOutput(&res, r, o.reply)
	res.SpoolSizes = k.spoolSizes(o.reply)
	switch {
	case o.err != nil:
		r.lost = s.fillLost(&res, k, o)
	case o.reply.Status == pyagent.StatusDied:
		s.fillDeath(&res, k, r, o)
	case o.cause != nil && o.reply.Interrupted:
		fillStopped(&res, r, o)
	case o.reply.Status == pyagent.StatusError:
		fillException(&res, o.reply)
	default:
		res.Success = true
	}
	if o.err == nil && o.reply.Status != pyagent.StatusDied && o.reply.Restarted {
		res.Restarted, res.RestartReason = true, endedBetween(o.reply.Death)
	}
	if r.earlier = s.takeLoss(); r.earlier != "" {
		res.Restarted, res.RestartReason = true, addLoss(r.earlier, res.RestartReason)
	}
	return res
}

// endedBetween says why the interpreter of the call before is not the one
// that ran this cell.
func endedBetween(d *pyagent.Death) string {
	how := "ended"
	if d != nil {
		how = deathWords(d)
	}
	return "the interpreter " + how + " between the calls; variables were gone before this call, files are kept"
}

// fillOutput sets what the cell showed and wrote.
func (s *session) fillOutput(res *RunResult, r *run, reply pyagent.ExecuteReply) {
	stdout, stderr := r.out.heads()
	res.Stdout = joinStream(stdout, reply.Parts["stdout_tail"], reply.Streams["stdout"], reply.Spool["stdout"])
	res.Stderr = joinStream(stderr, reply.Parts["stderr_tail"], reply.Streams["stderr"], reply.Spool["stderr"])
	if value, ok := reply.Parts["result"]; ok {
		text := valid(value)
		res.Result = &text
	}
	res.LateOutput = valid(slices.Concat(reply.Parts["late_stdout"], reply.Parts["late_stderr"]))
	res.Truncated = len(reply.Truncated) > 0
	res.Spool = boundedSpool(reply.Spool)
	s.fillDisplays(res, r, reply)
	for _, f := range reply.Files {
		res.Files = append(res.Files, s.fileRef(f))
	}
	if reply.FilesMore > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%d more files were made or changed; file_list shows them.", reply.FilesMore))
	}
}

// boundedSpool drops what is not a plausible path: the worker may lie.
func boundedSpool(spool map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"stdout", "stderr", "result"} {
		if p := spool[name]; path.IsAbs(p) && len(p) < 200 {
			out[name] = valid([]byte(p))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// spoolSizes gives the sizes of the streams that were kept whole.
func (k *kernel) spoolSizes(reply pyagent.ExecuteReply) map[string]int64 {
	sizes := map[string]int64{}
	for name, stream := range reply.Streams {
		if reply.Spool[name] != "" && stream.Total <= k.spool {
			sizes[name] = stream.Total
		}
	}
	return sizes
}

func (s *session) fillDisplays(res *RunResult, r *run, reply pyagent.ExecuteReply) {
	shown, dropped := r.out.shown()
	res.Displays = shown
	for _, d := range shown {
		if strings.HasPrefix(d.MIME, "image/") && d.MIME != "image/svg+xml" {
			res.Images++
		}
	}
	if dropped += max(reply.DisplayDropped, 0); dropped > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%d more displayed objects were left out (at most %d a call, 8 MiB each).", dropped, maxDisplays))
	}
}

func (s *session) fileRef(f pyagent.File) FileRef {
	name := cut(valid([]byte(f.Path)), 4096)
	return FileRef{Path: name, Size: f.Size, MIMEType: MIMEByName(name), URI: fileURI(s.handle, name)}
}

// joinStream puts a stream's head and tail together. Where something is left
// out it says how much, and no character is cut in two.
func joinStream(head, tail []byte, st pyagent.StreamTail, spool string) string {
	gap := st.TailFrom - int64(len(head))
	if len(tail) == 0 && st.Total <= int64(len(head)) || gap <= 0 {
		return valid(slices.Concat(head, tail))
	}
	head, tail = wholeEnd(head), wholeStart(tail)
	where := ""
	if spool != "" {
		where = "; the whole is in " + cut(valid([]byte(spool)), 200)
	}
	return fmt.Sprintf("%s\n[... %d bytes left out%s ...]\n%s", valid(head), gap, where, valid(tail))
}

// wholeEnd drops a character that was cut at the end.
func wholeEnd(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax, len(b)); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// wholeStart drops a character that was cut at the start.
func wholeStart(b []byte) []byte {
	for i := 0; i < min(utf8.UTFMax, len(b)); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// fillException: the code raised, or called sys.exit.
func fillException(res *RunResult, reply pyagent.ExecuteReply) {
	res.ExitCode = exitException
	e := reply.Error
	if e == nil {
		e = &pyagent.CellError{Name: "Exception"}
	}
	if e.ExitCode != nil {
		res.ExitCode = *e.ExitCode & 0xff
	}
	res.Error = &RunError{
		Kind: KindException, Type: cut(valid([]byte(e.Name)), 200), Message: valid(reply.Parts["message"]),
		Traceback: valid(reply.Parts["traceback"]), Line: max(e.Line, 0), Hint: cut(valid([]byte(e.Hint)), 2000),
	}
}

// fillStopped: the code ended after an interrupt; its state is kept.
func fillStopped(res *RunResult, r *run, o outcome) {
	res.Error = stopError(r, o.cause)
	res.ExitCode = stopCode(o.cause)
	res.Error.Hint = "Variables are kept. " + stopHint(o.cause)
	if o.reply.Error != nil {
		res.Error.Line = max(o.reply.Error.Line, 0)
		res.Error.Traceback = valid(o.reply.Parts["traceback"])
	}
}

func stopCode(c *stopCause) int {
	if c.kind == KindTimeout {
		return exitTimeout
	}
	return exitCancelled
}

func stopError(r *run, c *stopCause) *RunError {
	if c.kind == KindTimeout {
		return &RunError{Kind: KindTimeout, Type: "TimeoutError", Message: fmt.Sprintf("The code was stopped at its limit of %g s.", r.limit.Seconds())}
	}
	return &RunError{Kind: c.kind, Type: "KeyboardInterrupt", Message: c.text}
}

func stopHint(c *stopCause) string {
	if c.kind == KindTimeout {
		return "Do less in one call, or pass a larger timeout_seconds."
	}
	return "Run the code again if its result is still needed."
}

// fillDeath: the worker is gone and a new one has taken its place.
func (s *session) fillDeath(res *RunResult, k *kernel, r *run, o outcome) {
	s.mu.Lock()
	s.cells = 0
	s.mu.Unlock()
	d := o.reply.Death
	if d == nil {
		d = &pyagent.Death{Cause: pyagent.CauseProtocol}
	}
	res.Restarted = true
	switch {
	case d.Cause == pyagent.CauseReset:
		res.ExitCode = exitCancelled
		res.Error = &RunError{Kind: KindCancelled, Message: "The run was ended by session_reset.", Hint: "The interpreter is fresh now."}
		res.RestartReason = "session_reset"
	case o.cause != nil && d.Cause == pyagent.CauseInterrupt:
		res.ExitCode = stopCode(o.cause)
		res.Error = stopError(r, o.cause)
		res.RestartReason = "the code could not be interrupted and was killed; variables are gone, files are kept"
		res.Error.Hint = "Variables are gone, files of the workspace are kept. " + stopHint(o.cause)
	case s.oomKilled(k, d):
		res.ExitCode = exitKilled
		res.Error = &RunError{Kind: KindMemory, Type: "MemoryError", Message: "The interpreter was killed by the memory limit."}
		res.RestartReason = "the interpreter was killed by the memory limit; variables are gone, files are kept"
		res.Error.Hint = "Variables are gone, files of the workspace are kept. Work on less data at once, or raise sandbox.memory."
	default:
		s.fillDied(res, d)
	}
}

// fillDied: the interpreter ended by itself.
func (s *session) fillDied(res *RunResult, d *pyagent.Death) {
	what := deathWords(d)
	switch {
	case d.Cause == pyagent.CauseProtocol:
		res.ExitCode = exitKilled
	case d.Signal > 0:
		res.ExitCode = 128 + d.Signal&0x7f
	default:
		res.ExitCode = d.ExitCode & 0xff
	}
	res.RestartReason = "the interpreter " + what + "; variables are gone, files are kept"
	res.Error = &RunError{
		Kind: KindDied, Message: "The Python process " + what + ".",
		Hint: "Variables are gone, files of the workspace are kept; the next call runs in a fresh interpreter.",
	}
}

// deathWords says how an interpreter ended.
func deathWords(d *pyagent.Death) string {
	switch {
	case d.Cause == pyagent.CauseProtocol:
		return "broke the protocol with its supervisor and was killed"
	case d.OOM:
		return "was killed by the memory limit"
	case d.Signal > 0:
		return "was ended by signal " + signalName(d.Signal)
	case d.ExitCode == 0:
		return "exited (os._exit)"
	}
	return fmt.Sprintf("exited with code %d", d.ExitCode)
}

// oomKilled asks the engine, which sees the limit from outside; the
// supervisor's word counts where the engine cannot tell.
func (s *session) oomKilled(k *kernel, d *pyagent.Death) bool {
	if d.Cause != pyagent.CauseSelf || d.Signal != 9 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.m.life), 2*time.Second)
	defer cancel()
	st, err := k.sandbox.Stats(ctx)
	if err != nil || st.OOMKills < 0 {
		return d.OOM
	}
	seen := k.oomSeen.Swap(st.OOMKills)
	return st.OOMKills > seen
}

// fillLost: the whole sandbox is gone, which it tells, or the agent refused the
// cell.
func (s *session) fillLost(res *RunResult, k *kernel, o outcome) bool {
	res.ExitCode = exitException
	if refused, ok := errors.AsType[*pyagent.RequestError](o.err); ok {
		res.Error = &RunError{Kind: KindSandbox, Message: "The sandbox refused the code: " + refused.Message, Hint: "Call session_reset, then run the code again."}
		return false
	}
	k.markGone(o.err)
	s.forgetLost(k)
	res.Restarted = true
	res.RestartReason = k.why.Error() + "; variables and files of the workspace are gone"
	res.Error = &RunError{Kind: KindDied, Message: sentence(k.why.Error())}
	var exit *exitError
	switch {
	case o.cause != nil && (o.cause.kill || errors.Is(k.why, sandbox.ErrClosed)):
		res.ExitCode, res.Error = exitCancelled, &RunError{Kind: KindCancelled, Message: o.cause.text}
	case o.cause != nil:
		message := stopError(nil, &stopCause{kind: KindCancelled, text: "The code did not react to an interrupt, so the sandbox was closed."})
		res.ExitCode, res.Error = stopCode(o.cause), message
		res.Error.Kind = o.cause.kind
	case errors.As(k.why, &exit) && exit.exit.OOMKilled:
		res.ExitCode, res.Error.Kind = exitKilled, KindMemory
	default:
		res.ExitCode = exitKilled
	}
	res.Error.Hint = "Variables and files of the workspace are gone; the next call starts in a new sandbox."
	return true
}

// forgetLost makes the next call start a new sandbox without telling again
// what this answer tells.
func (s *session) forgetLost(k *kernel) {
	s.mu.Lock()
	mine := s.boot != nil && s.boot.kernel == k
	if mine {
		s.boot = nil
	}
	s.mu.Unlock()
	if mine {
		s.discard(k)
	}
}

// sentence makes a clause one sentence.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
