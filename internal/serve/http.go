package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/requestid"
)

// Time-outs of a connection.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
)

// HTTP serves many clients over HTTP: streamable HTTP at /mcp, in the era of
// sessions and in the one without, the older pair of SSE at /sse and /message,
// and /healthz.
type HTTP struct {
	Server *server.MCPServer
	Log    *slog.Logger
	// Principal is who was authenticated; nil: nobody is.
	Principal func(context.Context) string
	// Guard stands in front and decides who may come in.
	Guard func(http.Handler) http.Handler
	// Metrics answers /metrics; nil: there is no such page.
	Metrics http.Handler

	TLSCert, TLSKey string        // files; "": no TLS
	Limits          Limits        // zero values are the defaults
	Drain           time.Duration // wait for calls at the end; 0: 3 s
}

// Serve answers on a listener until ctx is done. Calls in flight are cancelled
// then, and told that the server ends.
func (t *HTTP) Serve(ctx context.Context, l net.Listener) error {
	f := newFront(t)
	handler := f.routes(t.Metrics)
	if t.Guard != nil {
		handler = t.Guard(handler)
	}
	gate := newGate(l, f.limits.Connections)
	srv := &http.Server{
		Handler:           identified(gate.wrap(handler)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      bodyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(t.Log.Handler(), slog.LevelDebug),
		ConnContext:       gate.note,
		// Requests end in order, not with ctx.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() {
		if t.TLSCert != "" {
			served <- srv.ServeTLS(gate, t.TLSCert, t.TLSKey)
			return
		}
		served <- srv.Serve(gate)
	}()
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		select {
		case err := <-served:
			t.end(ctx, f, srv)
			return fmt.Errorf("serve HTTP: %w", err)
		case <-sweep.C:
			f.sessions.sweep(ctx)
		case <-ctx.Done():
			t.end(ctx, f, srv)
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve HTTP: %w", err)
			}
			return nil
		}
	}
}

// identified gives every request an id, for logs.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(requestid.Ensure(r.Context())))
	})
}

// end ends the sessions, waits for the calls and closes the connections.
func (t *HTTP) end(ctx context.Context, f *front, srv *http.Server) {
	drain := orDefault(t.Drain, defaultDrain)
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if !f.end(closeCtx, drain) {
		t.Log.WarnContext(ctx, "calls did not end in time", "waited", drain)
	}
	if err := srv.Shutdown(closeCtx); err != nil {
		t.Log.DebugContext(ctx, "connections are cut", "reason", err)
		_ = srv.Close() // what is left of them
	}
}
