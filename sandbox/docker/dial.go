package docker

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/docker/docker/client"
)

// The client ignores its context while it waits for the answer to an attach,
// so a daemon that hangs there would hang us. A guard in the context makes the
// connection that is dialled under it fail when the context ends, until it is
// lifted.
type guard struct {
	mu   sync.Mutex
	stop func() bool // guarded by mu; nil before the dial
}

type guardKey struct{}

func withGuard(ctx context.Context) (context.Context, *guard) {
	g := &guard{}
	return context.WithValue(ctx, guardKey{}, g), g
}

func (g *guard) watch(ctx context.Context, conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}

// lift lets the connection live on. It is false when the context ended first.
func (g *guard) lift() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stop == nil || g.stop()
}

// guardedDial makes the client's dialer know guards. (With TLS the client
// dials attached streams by itself; then only TCP's own keep-alive bounds it.)
func guardedDial(c *client.Client) error {
	transport, ok := c.HTTPClient().Transport.(*http.Transport)
	if !ok || transport.DialContext == nil {
		return nil
	}
	dial := transport.DialContext
	return client.WithDialContext(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if g, ok := ctx.Value(guardKey{}).(*guard); ok && err == nil {
			g.watch(ctx, conn)
		}
		return conn, err
	})(c)
}
