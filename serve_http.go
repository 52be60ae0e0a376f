package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/internal/guard"
	"github.com/biocypher/biocage-mcp/internal/serve"
)

// listen opens the address of the configuration.
func (h host) listen(ctx context.Context) (net.Listener, error) {
	var listen net.ListenConfig
	network := "tcp"
	if address, err := netip.ParseAddrPort(h.cfg.Server.Listen); err == nil && address.Addr().Is4() {
		network = "tcp4" // 0.0.0.0 would be every address of IPv6 as well
	}
	l, err := listen.Listen(ctx, network, h.cfg.Server.Listen)
	if err != nil {
		return nil, fmt.Errorf("server.listen %s cannot be listened on; choose another address or port: %w", h.cfg.Server.Listen, err)
	}
	return l, nil
}

// checkPair sees that certificate and key, if there are any, go together.
func checkPair(s config.Server) error {
	if s.TLSCert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey); err != nil {
		return usageError{"server.tls_cert and server.tls_key cannot be used; give a PEM certificate and its key: " + err.Error()}
	}
	return nil
}

// baseURL is where this machine reaches a listener: one that stands for all
// addresses is reached at the loopback one.
func baseURL(addr net.Addr, isTLS bool) string {
	scheme := "http"
	if isTLS {
		scheme = "https"
	}
	where := addr.String()
	if address, err := netip.ParseAddrPort(where); err == nil && address.Addr().IsUnspecified() {
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if address.Addr().Is6() {
			loopback = netip.IPv6Loopback()
		}
		where = netip.AddrPortFrom(loopback, address.Port()).String()
	}
	return scheme + "://" + where
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
	h.log.InfoContext(ctx, "serving", "transport", "http", "url", baseURL(l.Addr(), cfg.TLSCert != "")+"/mcp", "version", buildVersion())
	return front.Serve(ctx, l)
}
