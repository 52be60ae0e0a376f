package requestid

import (
	"context"
	"crypto/rand"
	"log/slog"
)

// Key is the attribute that carries the id in logs.
const Key = "request"

type contextKey struct{}

// Ensure gives a context with an id: the one it has, or a new one.
func Ensure(ctx context.Context) context.Context {
	if From(ctx) != "" {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, rand.Text()[:16])
}

// Copy gives ctx the id of another context.
func Copy(ctx, from context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, From(from))
}

// From gives the id of the request that ctx belongs to, "" when it belongs to
// none.
func From(ctx context.Context) string {
	id, _ := ctx.Value(contextKey{}).(string)
	return id
}

// Handler adds the id of a line's context to the line.
func Handler(next slog.Handler) slog.Handler { return handler{next} }

type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, record slog.Record) error {
	if id := From(ctx); id != "" {
		record = record.Clone() // another handler may have it too
		record.AddAttrs(slog.String(Key, id))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
