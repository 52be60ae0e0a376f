package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/requestid"
)

// maxAnswer bounds one message to a client: some close the connection when
// they get more than 1 MiB at once.
const maxAnswer = 1_000_000

// A responder has the server handle messages.
type responder struct {
	server *server.MCPServer
	log    *slog.Logger
}

// A reply is an encoded answer. Its zero value is none.
type reply struct {
	line []byte
	code int // of a JSON-RPC error, else 0
}

// respond has the server handle a message.
func (r responder) respond(ctx context.Context, m message, line []byte) (answer reply) {
	ctx = requestid.Ensure(ctx)
	defer func() {
		if value := recover(); value != nil {
			incident := requestid.From(ctx)
			r.log.ErrorContext(ctx, "handler panicked", "incident", incident, "method", m.Method, "panic", value, "stack", string(debug.Stack()))
			answer = reply{}
			if len(m.ID) > 0 {
				answer = r.refusal(ctx, m.ID, fault{mcp.INTERNAL_ERROR, "Internal error; the server's log has it as incident " + incident + "."})
			}
		}
	}()
	response := handleMessage(ctx, r.server, line)
	if response == nil || len(m.ID) == 0 {
		return reply{}
	}
	return r.encode(ctx, m.ID, response)
}

// refusal encodes an error.
func (r responder) refusal(ctx context.Context, id json.RawMessage, f fault) reply {
	return r.encode(ctx, id, errorResponse(mcp.NewRequestId(nil), f))
}

// encode encodes a response, or an error in its place when it cannot be
// encoded or is too long.
func (r responder) encode(ctx context.Context, id json.RawMessage, response mcp.JSONRPCMessage) reply {
	line, err := encode(id, response)
	if err != nil {
		r.log.ErrorContext(ctx, "answer could not be encoded", "error", err)
		return r.refusal(ctx, id, fault{mcp.INTERNAL_ERROR, "The answer could not be encoded."})
	}
	if len(line) > maxAnswer {
		r.log.ErrorContext(ctx, "answer was too long", "bytes", len(line))
		return r.refusal(ctx, id, fault{mcp.INTERNAL_ERROR, fmt.Sprintf("The answer has %d bytes, and %d is the most that may be sent; ask for less at once.", len(line), maxAnswer)})
	}
	answer := reply{line: line}
	if failed, ok := response.(mcp.JSONRPCError); ok {
		answer.code = failed.Error.Code
	}
	return answer
}

// notification encodes a notification; nil means that it cannot be sent.
func (r responder) notification(ctx context.Context, n mcp.JSONRPCNotification) []byte {
	line, err := json.Marshal(n)
	if err != nil {
		r.log.ErrorContext(ctx, "notification could not be encoded", "method", n.Method, "error", err)
		return nil
	}
	if len(line) > maxAnswer {
		r.log.ErrorContext(ctx, "notification was too long", "method", n.Method, "bytes", len(line))
		return nil
	}
	return line
}
