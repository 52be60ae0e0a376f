package serve

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A Coded error says how it goes out. mcp-go reports whatever a handler
// returns as an internal error, and its hooks cannot fail a request.
type Coded interface {
	error
	// RPC gives the error's code and data; modern tells the protocol's era.
	RPC(modern bool) (code int, data any)
}

type verdictKey struct{}

// A verdict is what became known of a request while the server handled it.
type verdict struct{ failure *mcp.JSONRPCErrorDetails }

// judge notes an error that says how it goes out.
func judge(ctx context.Context, err error) {
	coded, ok := errors.AsType[Coded](err)
	v, there := ctx.Value(verdictKey{}).(*verdict)
	if !ok || !there {
		return
	}
	code, data := coded.RPC(server.IsModernRequest(ctx))
	details := mcp.NewJSONRPCErrorDetails(code, coded.Error(), data)
	v.failure = &details
}

// handleMessage has the server handle a message. Every transport calls it, so
// that errors have the codes that they name.
func handleMessage(ctx context.Context, s *server.MCPServer, line json.RawMessage) mcp.JSONRPCMessage {
	v := &verdict{}
	response := s.HandleMessage(context.WithValue(ctx, verdictKey{}, v), line)
	if v.failure == nil || response == nil {
		return response
	}
	return mcp.JSONRPCError{JSONRPC: mcp.JSONRPC_VERSION, ID: idOf(response), Error: *v.failure}
}

func idOf(response mcp.JSONRPCMessage) mcp.RequestId {
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		return r.ID
	case mcp.JSONRPCError:
		return r.ID
	}
	return mcp.NewRequestId(nil)
}
