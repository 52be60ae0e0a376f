package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/biocypher/biocage-mcp/tools"
)

const (
	traceparent = "traceparent"

	flush     = 400 * time.Millisecond // what the end of the server waits for the last spans
	tellEvery = time.Minute            // how often the log says that spans are not taken
)

// Tracing makes spans and sends them in the background.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
}

var _ tools.Observer = (*Tracing)(nil)

// Wanted tells whether the standard variables ask for traces, and errs when
// they ask for what this server cannot do.
func Wanted(getenv func(string) string) (bool, error) {
	endpoint := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") + getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if endpoint == "" || exporter == "none" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	for name, allowed := range map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
	} {
		if value := getenv(name); value != "" && value != allowed {
			return false, fmt.Errorf("%s is %q, but traces are sent as %s only; set it so, or unset OTEL_EXPORTER_OTLP_ENDPOINT", name, value, allowed)
		}
	}
	return true, nil
}

// Open begins to send spans to where the standard variables of the process
// say. A collector that does not answer holds nothing up.
func Open(ctx context.Context, version string, log *slog.Logger) (*Tracing, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT cannot be used: %w", err)
	}
	otel.SetErrorHandler(&told{log: log})
	t, err := newTracing(ctx, version, sdk.WithBatcher(exporter))
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	return t, nil
}

func newTracing(ctx context.Context, version string, opts ...sdk.TracerProviderOption) (*Tracing, error) {
	// The variables come last, so OTEL_SERVICE_NAME wins.
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "biocage"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES cannot be read: %w", err)
	}
	provider := sdk.NewTracerProvider(append(opts, sdk.WithResource(res))...)
	return &Tracing{provider: provider, tracer: provider.Tracer("biocage")}, nil
}

// Close sends what is left, within a bound.
func (t *Tracing) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flush)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// Begin implements tools.Observer. The call may belong to a trace of its
// client: _meta says so, or a header.
func (t *Tracing) Begin(ctx context.Context, c *tools.Call) (context.Context, error) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = t.context.Extract(ctx, carrier{c})
	}
	name, attributes := c.Method, []attribute.KeyValue{
		attribute.String("mcp.method.name", c.Method),
		attribute.String("biocage.request", c.Request),
	}
	if c.Tool != c.Method {
		name += " " + c.Tool
		attributes = append(attributes, attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", c.Tool))
	}
	ctx, _ = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...)) //nolint:spancheck // End ends it
	return ctx, nil                                                                                                   //nolint:spancheck // End ends it
}

// End implements tools.Observer.
func (*Tracing) End(ctx context.Context, _ *tools.Call, e tools.End) {
	span := trace.SpanFromContext(ctx)
	finish(span, e.Kind)
}

// Step makes a span of one thing that a session does; it ends with the
// outcome, a word.
func (t *Tracing) Step(ctx context.Context, name string) (context.Context, func(outcome string)) {
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, func(outcome string) { finish(span, outcome) }
}

// finish ends a span; what the code itself did wrong is an error too.
func finish(span trace.Span, outcome string) {
	span.SetAttributes(attribute.String("biocage.outcome", outcome))
	if outcome != tools.EndOK && outcome != tools.EndRunning {
		span.SetStatus(codes.Error, outcome)
		span.SetAttributes(attribute.String("error.type", outcome))
	}
	span.End()
}

// A carrier reads a call's trace context.
type carrier struct{ call *tools.Call }

// Get implements propagation.TextMapCarrier: _meta comes before the header,
// which may be that of a proxy.
func (c carrier) Get(key string) string {
	if key != traceparent {
		return "" // tracestate is free text
	}
	return cmp.Or(c.call.Meta(key), c.call.Header.Get(key))
}

// Set implements propagation.TextMapCarrier; nothing is ever injected.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return []string{traceparent} }

// told logs what goes wrong with spans, not more often than is of use.
type told struct {
	log  *slog.Logger
	last atomic.Int64 // in nanoseconds
}

// Handle implements otel.ErrorHandler.
func (h *told) Handle(err error) {
	now, last := time.Now().UnixNano(), h.last.Load()
	if (last == 0 || now-last >= int64(tellEvery)) && h.last.CompareAndSwap(last, now) {
		h.log.Warn("traces could not be sent", "error", err)
	}
}
