package conformance

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/serve"
)

// askingTools need something of the client: through requests to it in the
// older revisions, through input-required results in the newer.
func askingTools() []server.ServerTool {
	return []server.ServerTool{
		elicitor("test_elicitation", object(map[string]any{
			"username": map[string]any{"type": "string", "description": "User's response"},
			"email":    map[string]any{"type": "string", "description": "User's email address"},
		}, "username", "email")),
		elicitor("test_elicitation_sep1034_defaults", object(map[string]any{
			"name":     map[string]any{"type": "string", "default": "John Doe"},
			"age":      map[string]any{"type": "integer", "default": 30},
			"score":    map[string]any{"type": "number", "default": 95.5},
			"status":   map[string]any{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
			"verified": map[string]any{"type": "boolean", "default": true},
		})),
		elicitor("test_elicitation_sep1330_enums", object(map[string]any{
			"untitledSingle": map[string]any{"type": "string", "enum": []string{"option1", "option2", "option3"}},
			"titledSingle":   map[string]any{"type": "string", "oneOf": titled("value1", "value2", "value3")},
			"legacyEnum":     map[string]any{"type": "string", "enum": []string{"opt1", "opt2"}, "enumNames": []string{"Option One", "Option Two"}},
			"untitledMulti":  map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": []string{"option1", "option2"}}},
			"titledMulti":    map[string]any{"type": "array", "items": map[string]any{"anyOf": titled("value1", "value2")}},
		})),
		round("test_input_required_result_elicitation", "", askName),
		round("test_input_required_result_sampling", "", askCapital),
		round("test_input_required_result_list_roots", "", askRoots),
		round("test_input_required_result_request_state", "first", ask("confirm", "Please confirm", "ok", "boolean")),
		round("test_input_required_result_tampered_state", "first", ask("confirm", "Please confirm", "ok", "boolean")),
		round("test_input_required_result_multiple_inputs", "first", func(b *server.InputRequestBuilder) {
			askName(b)
			b.Sample("greeting", question("Generate a greeting", 50))
			b.Roots("client_roots")
		}),
		tool("test_input_required_result_multi_round", nil, twoRounds),
		tool("test_input_required_result_capabilities", nil, onlyWhatTheClientCan),
		tool("test_missing_capability", nil, needsSampling),
	}
}

func titled(values ...string) []any {
	var list []any
	for _, value := range values {
		list = append(list, map[string]any{"const": value, "title": "Title of " + value})
	}
	return list
}

func object(properties map[string]any, required ...string) map[string]any {
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func elicitor(name string, schema map[string]any) server.ServerTool {
	return tool(name, nil, func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, err := server.ServerFromContext(ctx).RequestElicitation(ctx, mcp.ElicitationRequest{
			Request: mcp.Request{Method: string(mcp.MethodElicitationCreate)},
			Params:  mcp.ElicitationParams{Message: "Please tell", RequestedSchema: schema},
		})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprintf("User response: action=%s, content=%v", answer.Action, answer.Content)), nil
	})
}

func question(text string, tokens int) mcp.CreateMessageParams {
	return mcp.CreateMessageParams{
		Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(text)}},
		MaxTokens: tokens,
	}
}

// ask asks the person for one value.
func ask(id, message, field, kind string) func(*server.InputRequestBuilder) {
	return func(b *server.InputRequestBuilder) {
		b.Elicit(id, mcp.ElicitationParams{
			Message:         message,
			RequestedSchema: object(map[string]any{field: map[string]any{"type": kind}}, field),
		})
	}
}

func askName(b *server.InputRequestBuilder) {
	ask("user_name", "What is your name?", "name", "string")(b)
}

func askCapital(b *server.InputRequestBuilder) {
	b.Sample("capital_question", question("What is the capital of France?", 100))
}

func askRoots(b *server.InputRequestBuilder) { b.Roots("client_roots") }

// round is a tool that asks once, and answers with all it was told.
func round(name, state string, questions func(*server.InputRequestBuilder)) server.ServerTool {
	return tool(name, nil, func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if state != "" && r.Params.RequestState != "" {
			if err := verify(r.Params.RequestState, state); err != nil {
				return nil, err
			}
		}
		b := server.NewInputRequestBuilder(seal(state))
		questions(b)
		if asked := b.ToolResult(); !all(r.Params.InputResponses, asked.InputRequests) {
			return asked, nil
		}
		return mcp.NewToolResultText("state-ok " + told(r.Params.InputResponses)), nil
	})
}

// all tells whether every request was answered with what was asked for.
func all(answers mcp.InputResponses, requests mcp.InputRequests) bool {
	for id, request := range requests {
		answered := false
		switch request.Method { //nolint:exhaustive // a server asks nothing else
		case mcp.MethodElicitationCreate:
			answered = server.ElicitationResponse(answers, id) != nil
		case mcp.MethodSamplingCreateMessage:
			answered = server.SamplingResponse(answers, id) != nil
		case mcp.MethodListRoots:
			answered = server.RootsResponse(answers, id) != nil
		}
		if !answered {
			return false
		}
	}
	return true
}

// told is every answer as text.
func told(answers mcp.InputResponses) string {
	var b strings.Builder
	for id := range answers {
		switch {
		case server.ElicitationResponse(answers, id) != nil:
			fmt.Fprintf(&b, "%s: %v; ", id, server.ElicitationResponse(answers, id).Content)
		case server.SamplingResponse(answers, id) != nil:
			fmt.Fprintf(&b, "%s: %v; ", id, server.SamplingResponse(answers, id).Content)
		case server.RootsResponse(answers, id) != nil:
			fmt.Fprintf(&b, "%s: %v; ", id, server.RootsResponse(answers, id).Roots)
		}
	}
	return b.String()
}

// seal makes a state that nobody can change unseen.
func seal(state string) string {
	if state == "" {
		return ""
	}
	return state + "." + signature(state)
}

func signature(state string) string {
	mac := hmac.New(sha256.New, []byte("a key of the fixtures"))
	mac.Write([]byte(state))
	return hex.EncodeToString(mac.Sum(nil))
}

func verify(sealed, want string) error {
	state, sum, _ := strings.Cut(sealed, ".")
	if state != want || !hmac.Equal([]byte(sum), []byte(signature(state))) {
		return fmt.Errorf("the request state was changed")
	}
	return nil
}

// twoRounds asks for a name, then for a colour.
func twoRounds(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answers := r.Params.InputResponses
	switch {
	case server.ElicitationResponse(answers, "step2") != nil:
		return mcp.NewToolResultText(told(answers)), verify(r.Params.RequestState, "second")
	case server.ElicitationResponse(answers, "step1") != nil:
		b := server.NewInputRequestBuilder(seal("second"))
		ask("step2", "Step 2: What is your favorite color?", "color", "string")(b)
		return b.ToolResult(), verify(r.Params.RequestState, "first")
	default:
		b := server.NewInputRequestBuilder(seal("first"))
		ask("step1", "Step 1: What is your name?", "name", "string")(b)
		return b.ToolResult(), nil
	}
}

// needsSampling cannot work for a client that has no model.
func needsSampling(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if can := r.Params.Meta.ClientCapabilities(); can == nil || can.Sampling == nil {
		return nil, samplingError{}
	}
	b := server.NewInputRequestBuilder("")
	askCapital(b)
	return b.ToolResult(), nil
}

// samplingError goes out with the code that the protocol has for it.
type samplingError struct{}

var _ serve.Coded = samplingError{}

func (samplingError) Error() string { return "the client must declare sampling" }

func (samplingError) RPC(bool) (code int, data any) {
	return mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, map[string]any{"requiredCapabilities": map[string]any{"sampling": map[string]any{}}}
}

// onlyWhatTheClientCan asks for what the client has declared.
func onlyWhatTheClientCan(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	can := &mcp.ClientCapabilities{}
	if declared := r.Params.Meta.ClientCapabilities(); declared != nil {
		can = declared
	}
	b := server.NewInputRequestBuilder("")
	if can.Sampling != nil {
		askCapital(b)
	}
	if can.Elicitation != nil {
		askName(b)
	}
	return b.ToolResult(), nil
}
