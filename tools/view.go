package tools

import (
	"context"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/requestid"
)

// Methods of the protocol that look into sessions, beside the calls of tools.
const (
	methodCall     = string(mcp.MethodToolsCall)
	methodRead     = string(mcp.MethodResourcesRead)
	methodList     = string(mcp.MethodResourcesList)
	methodPrompt   = string(mcp.MethodPromptsGet)
	methodComplete = string(mcp.MethodCompletionComplete)
)

// unknownTool stands for whatever name a client made up.
const unknownTool = "unknown"

// A view is a request that looks into a session and is no call of a tool.
type view struct {
	method    string
	session   string // the handle that it names
	arguments any
	header    http.Header
	meta      *mcp.Meta
}

// see answers a view: observers see it as they see calls, and a panic becomes
// an error.
func see[T any](ctx context.Context, t *toolset, v view, look func(context.Context) (T, error)) (result T, err error) {
	c := newCall(ctx, v.method, v.method)
	c.arguments, c.Header, c.meta = v.arguments, v.header, v.meta
	ctx, err = t.begin(ctx, c)
	e := End{Kind: EndPanic, ExitCode: 1}
	defer func() {
		e.Session, e.Took = v.session, time.Since(c.Began)
		for _, o := range t.opts.Observers {
			o.End(ctx, c, e)
		}
	}()
	defer func() {
		if value := recover(); value != nil {
			t.log.ErrorContext(ctx, "request panicked", "method", v.method, "incident", requestid.From(ctx), "panic", value, "stack", string(debug.Stack()))
			err = &failure{code: mcp.INTERNAL_ERROR, text: t.internal(ctx).text}
		}
	}()
	if err == nil {
		result, err = look(ctx)
	}
	if err != nil {
		e = refused(err)
		return result, err
	}
	e = End{Kind: EndOK, Bytes: jsonSize(result)}
	return result, nil
}

// refused is the End of a request for which nothing was done.
func refused(err error) End {
	r, known := classify(err)
	if !known {
		r.kind = EndInternal
	}
	return End{Kind: r.kind, Refusal: refusalOf(err), ExitCode: 1}
}

// newCall describes what begins now.
func newCall(ctx context.Context, method, tool string) *Call {
	ref := refOf(ctx, "")
	return &Call{
		Method: method, Tool: tool, Request: requestid.From(ctx),
		Principal: ref.Principal, Connection: ref.Connection, Began: time.Now(),
	}
}

// Unknown tells observers of calls that name no tool of this server: they are
// answered before any tool could see them.
func Unknown(opts Options) func(context.Context, *mcp.CallToolRequest) {
	t := newToolset(nil, opts)
	return func(ctx context.Context, request *mcp.CallToolRequest) {
		ctx = requestid.Ensure(ctx)
		c := newCall(ctx, methodCall, unknownTool)
		c.arguments, c.Header, c.meta = request.GetRawArguments(), request.Header, request.Params.Meta
		ctx, err := t.begin(ctx, c)
		if err != nil {
			t.log.DebugContext(ctx, "call of an unknown tool would have been refused", "error", err)
		}
		for _, o := range t.opts.Observers {
			o.End(ctx, c, End{Kind: EndArgument, Refusal: "unknown_tool", ExitCode: 1, Took: time.Since(c.Began)})
		}
	}
}
