package serve

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
)

// Methods that may take long, so that they get a goroutine of their own and
// count against the limit. Everything else is answered in the reader.
func isLong(method string) bool {
	long := []mcp.MCPMethod{
		mcp.MethodToolsCall, mcp.MethodResourcesList, mcp.MethodResourcesRead,
		mcp.MethodPromptsGet, mcp.MethodCompletionComplete, mcp.MethodSubscriptionsListen,
	}
	return slices.Contains(long, mcp.MCPMethod(method))
}

// A message is what the transport itself needs to know of a line.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			ProgressToken   any    `json:"progressToken"`
			ProtocolVersion string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// A fault is the JSON-RPC error that a line deserves.
type fault struct {
	code int
	text string
}

// parse reads a line. Its id is filled as far as it could be known.
func parse(line []byte) (message, *fault) {
	var m message
	if !json.Valid(line) {
		return m, &fault{mcp.PARSE_ERROR, "Parse error: the message is not JSON."}
	}
	if line[0] == '[' {
		return m, &fault{mcp.INVALID_REQUEST, "Batches are not supported; send one message at a time."}
	}
	if line[0] != '{' {
		return m, &fault{mcp.INVALID_REQUEST, "A message must be a JSON object."}
	}
	// params of another shape than expected are the handler's to refuse.
	err := json.Unmarshal(line, &m)
	switch {
	case !isID(m.ID):
		m.ID = nil
		return m, &fault{mcp.INVALID_REQUEST, "The id must be a string or a number, of at most 1024 bytes."}
	case m.Method != "" || m.Result != nil || m.Error != nil:
		return m, nil
	case err != nil:
		return m, &fault{mcp.INVALID_REQUEST, "The message is malformed: " + err.Error() + "."}
	}
	return m, &fault{mcp.INVALID_REQUEST, "The message has no method."}
}

// isID tells whether an id is absent, a string or a number, and not too long.
func isID(id json.RawMessage) bool {
	id = bytes.TrimSpace(id)
	return len(id) == 0 || len(id) <= maxLongID && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// tokenKey makes a progress token comparable; "" is no token.
func tokenKey(token any) string {
	switch token.(type) {
	case string, float64:
		key, err := json.Marshal(token)
		if err == nil {
			return string(key)
		}
	}
	return ""
}

// encode marshals a response under the request's own id, digit for digit.
func encode(id json.RawMessage, response mcp.JSONRPCMessage) ([]byte, error) {
	requestID := mcp.NewRequestId(nil)
	if len(id) > 0 {
		requestID = mcp.NewRequestId(id)
	}
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		r.ID = requestID
		response = r
	case mcp.JSONRPCError:
		r.ID = requestID
		response = r
	}
	return json.Marshal(response)
}

func errorResponse(id mcp.RequestId, f fault) mcp.JSONRPCError {
	return mcp.JSONRPCError{
		JSONRPC: mcp.JSONRPC_VERSION,
		ID:      id,
		Error:   mcp.NewJSONRPCErrorDetails(f.code, f.text, nil),
	}
}
