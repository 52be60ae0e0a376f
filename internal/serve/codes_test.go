package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type codedError struct{}

func (codedError) Error() string { return "it is not there" }

func (codedError) RPC(modern bool) (int, any) {
	if modern {
		return mcp.INVALID_PARAMS, map[string]string{"uri": "x"}
	}
	return mcp.RESOURCE_NOT_FOUND, map[string]string{"uri": "x"}
}

func TestErrorsHaveTheCodesTheyName(t *testing.T) {
	s := NewServer(Options{
		Version: "1",
		Templates: []server.ServerResourceTemplate{{
			Template: mcp.NewResourceTemplate("x://{a}", "x"),
			Handler: func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return nil, fmt.Errorf("read: %w", codedError{})
			},
		}},
		Resources: func(_ context.Context, cursor string) ([]mcp.Resource, string, error) {
			if cursor != "" {
				return nil, "", codedError{}
			}
			return []mcp.Resource{{URI: "x://1", Name: "one"}}, "bmV4dA==", nil
		},
	})
	p := connectServer(t, Stdio{}, s)
	p.send(initialize)
	p.expect(`"id":0`)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x://1"}}`)
	p.expect(`"id":1,"error":{"code":-32002,"message":"it is not there","data":{"uri":"x"}}`)
	p.send(`{"jsonrpc":"2.0","id":"two","method":"resources/list"}`)
	p.expect(`"id":"two"`, `"uri":"x://1","name":"one"`, `"nextCursor":"bmV4dA=="`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"resources/list","params":{"cursor":"bmV4dA=="}}`)
	p.expect(`"id":3,"error":{"code":-32002`)
	p.send(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"x://1",` + modernMeta + `}}`)
	p.expect(`"id":4,"error":{"code":-32602`, `"data":{"uri":"x"}`)
	p.send(`{"jsonrpc":"2.0","id":5,"method":"resources/list","params":{` + modernMeta + `}}`)
	p.expect(`"id":5`, `"cacheScope":"private"`, `"ttlMs":0`)
	if err := p.close(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestTheServerIntroducesItselfOnce(t *testing.T) {
	p := connectServer(t, Stdio{}, NewServer(Options{Version: "1"}))
	p.send(initialize)
	p.expect(`"icons":[{"src":"data:image/png;base64,iVBOR`, `"websiteUrl":"https://`, `"description":`)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{` + modernMeta + `}}`)
	p.expect(`"id":2`, `"icons":[{"src":"data:image/png;base64,iVBOR`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"resources/templates/list","params":{` + modernMeta + `}}`)
	if line := p.expect(`"id":3`, `"title":"BioCage"`); strings.Contains(line, "icons") {
		t.Errorf("an answer carries the icon: %s", line)
	}
	if err := p.close(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}
