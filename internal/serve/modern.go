package serve

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// An era is which kind of protocol a request speaks: since 2026-07-28 there
// are no sessions, and every request says for itself who it comes from.
type era struct {
	header, meta string // the protocol version as each tells it
}

func eraOf(header http.Header, m message) era {
	return era{header: header.Get(mcp.HeaderProtocolVersion), meta: m.Params.Meta.ProtocolVersion}
}

func (e era) isModern() bool {
	return mcp.IsModernProtocol(e.header) || mcp.IsModernProtocol(e.meta)
}

// checkModern checks what a request without a session must say in its headers,
// by which whatever stands in front may route it.
func checkModern(s *server.MCPServer, header http.Header, e era, m message, line []byte) *mcp.JSONRPCError {
	mismatch := func(text string) *mcp.JSONRPCError {
		return &mcp.JSONRPCError{JSONRPC: mcp.JSONRPC_VERSION, Error: mcp.NewJSONRPCErrorDetails(mcp.HEADER_MISMATCH, text, nil)}
	}
	switch {
	case header.Get(mcp.HeaderLastEventID) != "":
		return mismatch("Streams cannot be resumed in this protocol version; send the request anew, without Last-Event-ID.")
	case e.header == "":
		return mismatch("The header " + mcp.HeaderProtocolVersion + " is missing; send the version that the request's _meta names.")
	case e.meta == "":
		return &mcp.JSONRPCError{JSONRPC: mcp.JSONRPC_VERSION, Error: mcp.NewJSONRPCErrorDetails(mcp.INVALID_PARAMS, "params._meta lacks "+mcp.MetaKeyProtocolVersion+".", nil)}
	case e.header != e.meta:
		return mismatch("The header " + mcp.HeaderProtocolVersion + " and the request's _meta name different versions; send the same in both.")
	case !mcp.IsValidProtocolVersion(e.meta):
		unsupported := mcp.UnsupportedProtocolVersionError{Version: cut(e.meta), Supported: mcp.ValidProtocolVersions}.JSONRPCError()
		return &unsupported
	}
	if err := checkNames(s, header, e.meta, m, line); err != nil {
		return mismatch(err.Error())
	}
	return nil
}

// checkNames checks that the headers name the same method, tool and marked
// arguments as the message does.
func checkNames(s *server.MCPServer, header http.Header, version string, m message, line []byte) error {
	var whole struct {
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(line, &whole); err != nil {
		return errors.New("the message is malformed")
	}
	if err := mcp.ValidateStandardHeaders(header.Get, version, mcp.MCPMethod(m.Method), whole.Params); err != nil {
		return err
	}
	if m.Method != string(mcp.MethodToolsCall) {
		return nil
	}
	tool := s.GetTool(m.Params.Name)
	if tool == nil {
		return nil // the call itself is told
	}
	lookup := func(name string) (string, bool) {
		values := header.Values(name)
		if len(values) == 0 {
			return "", false
		}
		return values[0], true
	}
	return mcp.ValidateParamHeadersLookup(lookup, &tool.Tool, whole.Params)
}

// statusOf is the HTTP status of an answer to a request without a session,
// where it tells whoever stands in between what the answer is.
func statusOf(code int) int {
	switch code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION,
		mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
