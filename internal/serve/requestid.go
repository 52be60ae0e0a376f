package serve

import (
	"context"
	"crypto/rand"
	"net/http"
)

type requestIDKey struct{}

// RequestID names the HTTP request that a context belongs to, for logs; ""
// where there is none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// named gives every request an id.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(withRequestID(r.Context(), rand.Text()[:10])))
	})
}
