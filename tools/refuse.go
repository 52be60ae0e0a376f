package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/biocypher/biocage-mcp/internal/requestid"
	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/session"
)

// kindArgument is the kind of a refusal that only another request can mend.
const kindArgument = "argument"

// A refusal is what a model is told of an error: what is wrong and what to do.
type refusal struct {
	kind    string
	message string
	hint    string
	session string // the handle, where the session is there and stays
	lost    bool   // state that existed before is gone
}

// refuse turns an error into an answer. It is the only place that does.
func (t *toolset) refuse(ctx context.Context, tool string, err error) answer {
	r, known := classify(err)
	switch {
	case !known:
		t.log.ErrorContext(ctx, "tool failed", "tool", tool, "incident", requestid.From(ctx), "error", err)
		return t.internal(ctx)
	case r.kind == session.KindSandbox:
		t.log.WarnContext(ctx, "sandbox failed", "tool", tool, "error", causes(err))
	default:
		t.log.DebugContext(ctx, "call refused", "tool", tool, "kind", r.kind, "error", err)
	}
	r.message, r.hint = shorten(Sanitize(r.message), 2000), shorten(Sanitize(r.hint), 1000)
	return r.answer()
}

// causes tells a sandbox error with what is behind its text.
func causes(err error) error {
	var lost *session.SandboxError
	if fault, ok := errors.AsType[*sandbox.FaultError](err); ok {
		return fault // the message has its text
	}
	if errors.As(err, &lost) && lost.Err != nil {
		return fmt.Errorf("%w: %w", err, lost.Err)
	}
	return err
}

// internal is the answer to a failure that only the log explains.
func (t *toolset) internal(ctx context.Context) answer {
	return refusal{
		kind:    session.KindSandbox,
		message: "Internal error; the server's log has it as incident " + requestid.From(ctx) + ".",
		hint:    "Try once more; if it comes again, call session_reset.",
	}.answer()
}

// classify finds what a known error means.
func classify(err error) (refusal, bool) {
	var (
		argument *session.ArgumentError
		busy     *session.BusyError
		lost     *session.SandboxError
	)
	switch {
	case errors.As(err, &argument):
		return refusal{kind: kindArgument, message: argument.Message}, true
	case errors.As(err, &busy):
		r := refusal{kind: session.KindBusy, message: busy.Error(), session: busy.Session}
		if busy.Begun != "" {
			r.hint = fmt.Sprintf("Pass %q as \"session\" then: it is being made for you.", busy.Begun)
		}
		if busy.RunID != "" {
			r.hint = fmt.Sprintf("Call python_wait with run_id %q for its result, or with interrupt true to stop it and keep the state.", busy.RunID)
		}
		return r, true
	case errors.As(err, &lost):
		return refusal{kind: session.KindSandbox, message: lost.Message, lost: lost.Lost}, true
	}
	if r, ok := classifySession(err); ok {
		return r, true
	}
	return classifySentinel(err)
}

// classifySession finds what an error means that is about which session is
// meant.
func classifySession(err error) (refusal, bool) {
	var (
		ended   *session.EndedError
		none    *session.NoSessionError
		tooMany *session.TooManyError
	)
	switch {
	case errors.As(err, &ended):
		return refusal{kind: kindArgument, message: ended.Error(), hint: "Its variables and files are gone. Call without session to begin a new one."}, true
	case errors.As(err, &none):
		hint := `Pass the handle that an earlier answer told as "session", or call python_run without session to begin a new one.`
		if none.Name != "" {
			hint = "python_run with it begins one of that name; leave session out to use your own one."
		}
		return refusal{kind: kindArgument, message: none.Error(), hint: join(hint, ownSessions(none.Own))}, true
	case errors.As(err, &tooMany):
		hint := "Wait until an idle session ends, close another client, or raise session.max in the server's configuration."
		if tooMany.Promised > 0 {
			hint = "Wait until a session ends, or lower sandbox.memory or session.max in the server's configuration."
		}
		if len(tooMany.Own) > 0 {
			hint = `Go on in a session of yours by passing it as "session", or end one that is no longer needed (session_reset with close: true).`
		}
		return refusal{kind: session.KindBusy, message: tooMany.Error(), hint: join(hint, ownSessions(tooMany.Own))}, true
	}
	return refusal{}, false
}

// maxShown bounds how many sessions a text lists.
const maxShown = 8

// ownSessions lists a caller's sessions in one line.
func ownSessions(own []session.Summary) string {
	if len(own) == 0 {
		return ""
	}
	var items []string
	for _, s := range own[:min(len(own), maxShown)] {
		state := "idle for " + seconds(s.IdleSeconds)
		if s.IsRunning {
			state = "running code"
		}
		if s.Name != "" {
			state = "named " + s.Name + ", " + state
		}
		items = append(items, fmt.Sprintf("%s (%s, begun %s ago)", s.Session, state, seconds(s.AgeSeconds)))
	}
	if more := len(own) - len(items); more > 0 {
		items = append(items, fmt.Sprintf("%d more", more))
	}
	return "Yours: " + strings.Join(items, ", ") + "."
}

func classifySentinel(err error) (refusal, bool) {
	switch {
	case errors.Is(err, session.ErrUnknown):
		return refusal{
			kind: kindArgument, message: "This session does not exist, or has ended.",
			hint: "Leave session out to use your own one, or pass a handle from a recent answer.",
		}, true
	case errors.Is(err, session.ErrNoRun):
		return refusal{kind: kindArgument, message: "There is no such run in this session.", hint: "Start one with python_run, or leave run_id out for the latest one."}, true
	case errors.Is(err, session.ErrClosed):
		return refusal{kind: session.KindSandbox, message: "The server is shutting down.", hint: "Call again when it has been started anew."}, true
	case errors.Is(err, sandbox.ErrRootMissing):
		return refusal{kind: session.KindSandbox, message: "The Python environment has not been built.", hint: "Run `biocage env build` on the server's machine, then call again."}, true
	case errors.Is(err, sandbox.ErrUnavailable):
		return refusal{kind: session.KindSandbox, message: "No sandbox can be started on this machine.", hint: "Run `biocage doctor` there: it says what is missing and what to do."}, true
	case errors.Is(err, sandbox.ErrExhausted):
		return refusal{kind: session.KindSandbox, message: "The server's machine has run out of memory, disk or another resource.", hint: "Free some, or lower the limits in the server's configuration, then call again."}, true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return refusal{kind: session.KindCancelled, message: "The call was cancelled.", hint: "Call again if its result is still needed."}, true
	}
	return refusal{}, false
}

// answer gives a refusal the shape of python_run's result object, which the
// other tools' refusals share so that one reader fits all.
func (r refusal) answer() answer {
	text := join(r.message, r.hint)
	code := 1
	if r.kind == session.KindCancelled {
		code = 130
	}
	object := session.RunResult{
		Status: session.StatusDone, ExitCode: code, Files: []session.FileRef{}, Restarted: r.lost, Session: r.session,
		Error: &session.RunError{Kind: r.kind, Message: r.message, Hint: r.hint},
	}
	if r.lost {
		object.RestartReason = r.message
	}
	return answer{text: text, object: object, failed: true}
}
