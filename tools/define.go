package tools

import (
	"context"
	"fmt"

	"github.com/invopop/jsonschema"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

// A target is the argument that every tool has.
type target struct {
	Session string `json:"session,omitempty" jsonschema_description:"Another session: handle or name."`
}

func (t target) handle() string { return t.Session }

// An input is a tool's arguments.
type input interface{ handle() string }

// hints tell a host what a tool does to the world. The world of every tool is
// the sandbox, so none is open.
type hints struct{ readOnly, destructive, idempotent bool }

// A definition is all there is to a tool.
type definition[In input] struct {
	name        string
	title       string
	description string
	hints       hints
	// adjust changes the schema where tags cannot say it; nil leaves it.
	adjust func(*jsonschema.Schema)
	// output is an example of the result object, for its schema.
	output any
	handle func(ctx context.Context, c call, in In) (answer, error)
}

// A call is what a handler knows beside its arguments.
type call struct {
	ref   session.Ref
	token mcp.ProgressToken // nil: nobody wants progress

	// Answers to questions that this call asked when it came before.
	responses mcp.InputResponses
	state     string
}

// define makes a tool of its definition: arguments are checked against the
// schema, and every call is watched.
func define[In input](t *toolset, d definition[In]) server.ServerTool {
	schema := inputSchema[In](d.adjust)
	tool := mcp.Tool{
		Name:           d.name,
		Title:          d.title,
		Description:    d.description,
		RawInputSchema: encodeSchema(schema),
		Annotations: mcp.ToolAnnotation{
			ReadOnlyHint:    new(d.hints.readOnly),
			DestructiveHint: new(d.hints.destructive),
			IdempotentHint:  new(d.hints.idempotent),
			OpenWorldHint:   new(false),
		},
	}
	if t.opts.Structured {
		tool.RawOutputSchema = encodeSchema(outputSchema(d.output))
	}
	handler := func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return t.call(ctx, d.name, request, func(ctx context.Context) (answer, error) {
			return answerCall(ctx, d, schema, request)
		}), nil
	}
	return server.ServerTool{Tool: tool, Handler: handler}
}

func answerCall[In input](ctx context.Context, d definition[In], schema *jsonschema.Schema, request mcp.CallToolRequest) (answer, error) {
	var in In
	if err := decode(d.name, schema, request.GetRawArguments(), &in); err != nil {
		return answer{}, err
	}
	c := call{ref: refOf(ctx, in.handle()), responses: request.Params.InputResponses, state: request.Params.RequestState}
	if meta := request.Params.Meta; meta != nil {
		c.token = meta.ProgressToken
	}
	a, err := d.handle(ctx, c, in)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", d.name, err)
	}
	return a, nil
}
