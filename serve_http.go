package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/serve"
)

// listen opens the address of the configuration.
func (h host) listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", h.cfg.Server.Listen)
	if err != nil {
		return nil, fmt.Errorf("server.listen %s cannot be listened on; choose another address or port: %w", h.cfg.Server.Listen, err)
	}
	return l, nil
}

// serveHTTP serves many clients until ctx ends.
func (h host) serveHTTP(ctx context.Context, l net.Listener, s *server.MCPServer, w *watch) error {
	guard, err := h.guard()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	cfg := h.cfg.Server
	front := &serve.HTTP{
		Server: s,
		Log:    h.log,
		// What the guard refuses is counted too, and it stands before the figures.
		Guard:     func(next http.Handler) http.Handler { return w.metrics.Requests(guard(next)) },
		Metrics:   w.metrics.Handler(),
		Principal: principal,
		TLSCert:   cfg.TLSCert, TLSKey: cfg.TLSKey,
		Limits: serve.Limits{Body: int64(cfg.MaxBody), Connections: cfg.MaxConnections},
		Drain:  drain,
	}
	scheme := "http"
	if cfg.TLSCert != "" {
		scheme = "https"
	}
	h.log.InfoContext(ctx, "serving", "transport", "http", "url", scheme+"://"+l.Addr().String()+"/mcp", "version", buildVersion())
	return front.Serve(ctx, l)
}

// guard lets in who brings a token of the configuration, or the one that is
// made and told here when there is none.
func (h host) guard() (func(http.Handler) http.Handler, error) {
	tokens := h.cfg.Server.Tokens
	if len(tokens) == 0 {
		tokens = []string{rand.Text()}
		if _, err := fmt.Fprintln(h.p.stderr, "biocage: the token of this run is "+tokens[0]); err != nil {
			return nil, fmt.Errorf("tell the token: %w", err)
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			principal := whose(tokens, given)
			if principal == "" {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "This server wants a token; send it in the header Authorization: Bearer TOKEN.", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, principal)))
		})
	}, nil
}

type principalKey struct{}

// principal is whose token a request brought.
func principal(ctx context.Context) string {
	name, _ := ctx.Value(principalKey{}).(string)
	return name
}

// whose names the token that was given, in the same time whichever it is; ""
// when it is none of them.
func whose(tokens []string, given string) (name string) {
	sum := sha256.Sum256([]byte(given))
	for i, token := range tokens {
		want := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
			name = fmt.Sprintf("token#%d", i+1)
		}
	}
	return name
}
