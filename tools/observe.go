package tools

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/requestid"
	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/session"
)

// An Observer is told of every call of a tool, and of every other request that
// looks into sessions: once when it begins and once
// when it ends, also when it is refused, cancelled or panics. Its methods are
// called from several goroutines at once and hold the call up.
type Observer interface {
	// Begin comes before anything is done. The context that it gives,
	// made of ctx, is the call's from then on; an error refuses the call, and End follows even so.
	Begin(ctx context.Context, c *Call) (context.Context, error)
	// End comes when the answer is known, with the call's context.
	End(ctx context.Context, c *Call, e End)
}

// A Call is what is known of a call when it begins. The texts of the client in
// it have not been checked.
type Call struct {
	Method     string // of the protocol
	Tool       string // one of this server's, "unknown", or the method where that is no call
	Request    string // its id, as in the log
	Principal  string // the authenticated caller; "": nobody was asked
	Connection string // the protocol's session
	Began      time.Time
	Header     http.Header // of HTTP, else nil
	arguments  any
	meta       *mcp.Meta
}

// Arguments are the call's arguments, as JSON.
func (c *Call) Arguments() json.RawMessage {
	if text, ok := c.arguments.(json.RawMessage); ok {
		return text
	}
	encoded, err := json.Marshal(c.arguments)
	if err != nil {
		return nil // it came as JSON, so this is a call of Go's
	}
	return encoded
}

// Meta gives a text of the call's _meta, "" when there is none.
func (c *Call) Meta(key string) string {
	if c.meta == nil {
		return ""
	}
	text, _ := c.meta.AdditionalFields[key].(string)
	return text
}

// Kinds of an End beside those of package session's RunError.
const (
	EndOK       = "ok"       // done
	EndRunning  = "running"  // the run outlasts the answer
	EndAsked    = "asked"    // the client is asked something, and the call comes again
	EndArgument = "argument" // only another request can mend it
	EndInternal = "internal" // a fault of the server, which its log explains
	EndPanic    = "panic"    // the same, and worse
)

// An End is how a call ended. Its words are the server's own and few.
type End struct {
	Kind     string
	Refusal  string // why nothing was done, in one word; "" when something was
	ExitCode int
	Session  string // the handle in the answer
	Bytes    int    // of the answer's JSON
	Took     time.Duration
}

// call answers one call: panics and errors become answers, observers see it.
func (t *toolset) call(ctx context.Context, tool string, request mcp.CallToolRequest, handle func(context.Context) (answer, error)) (result *mcp.CallToolResult) {
	ctx = requestid.Ensure(ctx)
	c := newCall(ctx, methodCall, tool)
	c.arguments, c.Header, c.meta = request.GetRawArguments(), request.Header, request.Params.Meta
	ctx, err := t.begin(ctx, c)
	var e End
	defer func() {
		e.Took = time.Since(c.Began)
		for _, o := range t.opts.Observers {
			o.End(ctx, c, e)
		}
	}()
	defer func() {
		if value := recover(); value != nil {
			t.log.ErrorContext(ctx, "tool panicked", "tool", tool, "incident", requestid.From(ctx), "panic", value, "stack", string(debug.Stack()))
			e = End{Kind: EndPanic, ExitCode: 1}
			result, e.Bytes = t.result(ctx, t.internal(ctx))
		}
	}()
	var a answer
	if err == nil {
		a, err = handle(ctx)
	}
	if err != nil {
		a = t.refuse(ctx, tool, err)
	}
	e = endOf(a, err)
	result, e.Bytes = t.result(ctx, a)
	return result
}

// begin tells every observer; the first refusal counts.
func (t *toolset) begin(ctx context.Context, c *Call) (_ context.Context, refused error) {
	for _, o := range t.opts.Observers {
		next, err := o.Begin(ctx, c)
		if ctx = next; refused == nil {
			refused = err
		}
	}
	return ctx, refused
}

// endOf reads an answer: what it says of the run, or why it was refused.
func endOf(a answer, err error) End {
	e := End{Kind: EndOK}
	if a.question != nil {
		e.Kind = EndAsked
	}
	switch object := a.object.(type) {
	case session.RunResult:
		e.Session, e.ExitCode = object.Session, object.ExitCode
		switch {
		case object.Error != nil:
			e.Kind = object.Error.Kind
		case object.Status == session.StatusRunning:
			e.Kind = EndRunning
		}
	case session.WriteResult:
		e.Session = object.Session
	case session.Exposure:
		e.Session = object.Session
	case session.ResetResult:
		e.Session = object.Session
	case session.Info:
		e.Session = object.Session
	}
	if err != nil {
		e.Refusal = refusalOf(err)
	}
	if e.Refusal == EndInternal {
		e.Kind = EndInternal
	}
	return e
}

// refusalOf names what an error means in one word.
func refusalOf(err error) string {
	var (
		argument *session.ArgumentError
		busy     *session.BusyError
		lost     *session.SandboxError
		none     *session.NoSessionError
	)
	for _, known := range []struct {
		is   bool
		word string
	}{
		{errors.As(err, &argument), EndArgument},
		{errors.As(err, &busy), session.KindBusy},
		{errors.Is(err, session.ErrTooMany), "too_many"},
		{errors.Is(err, session.ErrUnknown), "unknown_session"},
		{errors.As(err, &none), "no_session"},
		{errors.Is(err, session.ErrNoRun), "no_run"},
		{errors.Is(err, session.ErrClosed), "shutting_down"},
		{errors.Is(err, sandbox.ErrRootMissing), "no_environment"},
		{errors.Is(err, sandbox.ErrUnavailable), "no_engine"},
		{errors.Is(err, sandbox.ErrExhausted), "exhausted"},
		{errors.As(err, &lost), session.KindSandbox},
		{errors.Is(err, context.Canceled), session.KindCancelled},
		{errors.Is(err, context.DeadlineExceeded), session.KindCancelled},
	} {
		if known.is {
			return known.word
		}
	}
	return EndInternal
}
