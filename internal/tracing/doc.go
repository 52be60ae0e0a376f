// Package tracing sends OpenTelemetry traces: a span for each call of a tool,
// and beneath it spans for what the session does for it. A span has no text of
// a client or of the code that runs. The owner of a [Tracing] closes it, which
// sends what is left.
package tracing
