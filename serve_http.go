package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/guard"
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
	cfg := h.cfg.Server
	access := cfg.Access()
	access.Addr, access.TLS = l.Addr(), cfg.TLSCert != ""
	access.Tell, access.Log = h.p.stderr, h.log
	door, err := guard.New(access)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	front := &serve.HTTP{
		Server: s,
		Log:    h.log,
		// What the guard refuses is counted too, and it stands before the figures.
		Guard:     func(next http.Handler) http.Handler { return w.metrics.Requests(door.Wrap(next)) },
		Metrics:   w.metrics.Handler(),
		Principal: guard.Principal,
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
