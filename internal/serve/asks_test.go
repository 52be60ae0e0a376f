package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const initializeAskable = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`

// asking are tools that ask the client and tell what they were answered.
func asking() []server.ServerTool {
	ask := func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := server.ServerFromContext(ctx).RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: "may I?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
		}})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultText(fmt.Sprintf("%s %v", result.Action, result.Content)), nil
	}
	roots := func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := server.ServerFromContext(ctx).RequestRoots(ctx, mcp.ListRootsRequest{})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultText(fmt.Sprintf("%d roots, the first is %s", len(result.Roots), result.Roots[0].URI)), nil
	}
	return []server.ServerTool{tool("ask", ask), tool("roots", roots)}
}

func TestQuestionsToTheClient(t *testing.T) {
	p := connect(t, Stdio{}, asking()...)
	p.send(initializeAskable)
	p.expect(`"id":0`)

	p.send(callLine("1", "ask", ""))
	p.expect(`"id":1,"method":"elicitation/create"`, `"message":"may I?"`)
	p.send(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"sure":true}}}`)
	p.expect(`"id":1,"result"`, "accept map[sure:true]")

	p.send(callLine("2", "roots", ""))
	p.expect(`"id":2,"method":"roots/list"`)
	p.send(`{"jsonrpc":"2.0","id":77,"result":{"roots":[]}}`, // nobody asked
		`{"jsonrpc":"2.0","id":2,"result":{"roots":[{"uri":"file:///srv"}]}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}`) // answered already
	p.expect("1 roots, the first is file:///srv")

	p.send(callLine("3", "ask", ""))
	p.expect(`"method":"elicitation/create"`)
	p.send(`{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"` + strings.Repeat("x", 2000) + `"}}`)
	if line := p.expect("the client refused (-1): xxx"); len(line) > 1000 {
		t.Errorf("the client's error came back with %d bytes", len(line))
	}

	p.send(callLine("4", "roots", ""))
	p.expect(`"method":"roots/list"`)
	p.send(`{"jsonrpc":"2.0","id":4,"result":"nonsense"}`)
	p.expect("answer is malformed")

	p.send(callLine("5", "ask", ""))
	p.expect(`"id":5,"method":"elicitation/create"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	p.expect(`"method":"notifications/cancelled"`, `"requestId":5`)
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

func TestClientsThatCannotBeAskedAreNot(t *testing.T) {
	p := connect(t, Stdio{}, asking()...)
	p.send(initialize, callLine("1", "ask", ""))
	p.expect(`"id":0`)
	p.expect(`"id":1`, server.ErrElicitationNotSupported.Error())
	p.send(callLine("2", "roots", ""))
	p.expect(`"id":2`, server.ErrRootsNotSupported.Error())
}

func TestQuestionsEndWithTheConnection(t *testing.T) {
	p := connect(t, Stdio{}, asking()...)
	p.send(initializeAskable, callLine("1", "ask", ""))
	p.expect(`"id":0`)
	p.expect("elicitation/create")
	if err := p.close(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	a := &asks{}
	for range maxAsks {
		if _, _, err := a.begin(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := a.begin(); !errors.Is(err, errTooManyQuestions) {
		t.Errorf("begin: %v, want errTooManyQuestions", err)
	}
	a.end("1")
	if _, _, err := a.begin(); err != nil {
		t.Errorf("begin after one ended: %v", err)
	}
}
