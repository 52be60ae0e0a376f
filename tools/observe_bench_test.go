package tools

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// idle is an observer that does nothing: what watching itself costs.
type idle struct{}

func (idle) Begin(ctx context.Context, _ *Call) (context.Context, error) { return ctx, nil }
func (idle) End(context.Context, *Call, End)                             {}

func BenchmarkCall(b *testing.B) {
	for _, bc := range []struct {
		name      string
		observers []Observer
	}{{"nobody watches", nil}, {"three watch", []Observer{idle{}, idle{}, idle{}}}} {
		b.Run(bc.name, func(b *testing.B) {
			tool := All(&fakeSessions{}, Options{Observers: bc.observers})[0]
			var request mcp.CallToolRequest
			request.Params.RawArguments = json.RawMessage(`{"code":"1+1"}`)
			for b.Loop() {
				if result, err := tool.Handler(b.Context(), request); err != nil || result.IsError {
					b.Fatal(err, result)
				}
			}
		})
	}
}
