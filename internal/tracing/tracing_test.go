package tracing

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/server"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

const canary = "CANARY9943"

// sessions does one step for a run.
type sessions struct {
	tools.Sessions
	t *Tracing
}

func (s sessions) Run(ctx context.Context, _ session.Ref, req session.RunRequest) (session.RunResult, error) {
	_, end := s.t.Step(ctx, "session.run")
	defer end("exception")
	if strings.Contains(req.Code, "panic") {
		panic(req.Code)
	}
	return session.RunResult{Session: canary, Error: &session.RunError{Kind: session.KindException, Message: canary}}, nil
}

func TestSpansOfACall(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracing, err := newTracing(t.Context(), "1.2.3", sdk.WithSyncer(exporter))
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("test", "1")
	s.AddTools(tools.All(sessions{t: tracing}, tools.Options{Observers: []tools.Observer{tracing}})...)
	s.AddPrompts(tools.Prompts(sessions{t: tracing}, tools.Options{Observers: []tools.Observer{tracing}})...)
	const remote = "0af7651916cd43dd8448eb211c80319c"
	call := func(code, meta string) {
		s.HandleMessage(t.Context(), json.RawMessage(fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"python_run","arguments":{"code":%q},"_meta":%s}}`, code, meta)))
	}
	call(canary, `{"traceparent":"00-`+remote+`-b7ad6b7169203331-01","tracestate":"a=`+canary+`"}`)
	call(canary+"panic", `{"traceparent":"`+canary+`"}`)
	s.HandleMessage(t.Context(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"analyse_data","arguments":{"file":"`+canary+
		`"},"_meta":{"traceparent":"00-`+remote+`-b7ad6b7169203331-01"}}}`))
	spans := exporter.GetSpans()
	var got []string
	for _, span := range spans {
		isRemote := span.SpanContext.TraceID().String() == remote
		got = append(got, fmt.Sprintf("%s %s %v %v", span.Name, span.Status.Description, isRemote, span.Parent.IsValid()))
	}
	want := []string{
		"session.run exception true true", "tools/call python_run exception true true",
		"session.run exception false true", "tools/call python_run panic false false",
		"prompts/get  true true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans: name, outcome, in the client's trace, with a parent (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(spans)
	if err != nil || strings.Contains(string(text), canary) || !strings.Contains(string(text), "1.2.3") {
		t.Errorf("%v: the spans tell what the client said, or lack the version:\n%s", err, text)
	}
	if err := tracing.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWanted(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for _, tc := range []struct {
		name string
		env  []string
		want bool
		err  string
	}{
		{"nothing", nil, false, ""},
		{"only a name", []string{"OTEL_SERVICE_NAME=x"}, false, ""},
		{"an endpoint", []string{endpoint}, true, ""},
		{"one of traces", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://x/y"}, true, ""},
		{"switched off", []string{endpoint, "OTEL_SDK_DISABLED=true"}, false, ""},
		{"no exporter", []string{endpoint, "OTEL_TRACES_EXPORTER=none"}, false, ""},
		{"grpc", []string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, false, "http/protobuf"},
	} {
		got, err := Wanted(func(name string) string {
			for _, variable := range tc.env {
				if value, ok := strings.CutPrefix(variable, name+"="); ok {
					return value
				}
			}
			return ""
		})
		if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
}
