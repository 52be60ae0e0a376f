package serve

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// sorry is what a client gets for whom there is no connection left.
const sorry = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n"

// A gate bounds the connections of a listener. When there are too many, the
// one goes that has waited longest without a request in hand, so that whoever
// holds connections open and sends nothing keeps nobody out.
type gate struct {
	net.Listener
	max int

	mu   sync.Mutex
	open map[*gateConn]struct{} // guarded by mu
}

// A gateConn is a connection that came through a gate.
type gateConn struct {
	net.Conn
	gate *gate
	busy int       // guarded by gate.mu; requests in hand
	last time.Time // guarded by gate.mu; when the last request ended, or it was opened
}

func newGate(l net.Listener, limit int) *gate {
	return &gate{Listener: l, max: limit, open: map[*gateConn]struct{}{}}
}

// Accept gives the next connection for which there is room.
func (g *gate) Accept() (net.Conn, error) {
	for {
		accepted, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &gateConn{Conn: accepted, gate: g, last: time.Now()}
		evicted, ok := g.add(c)
		if evicted != nil {
			_ = evicted.Close() // its owner finds out
		}
		if ok {
			return c, nil
		}
		_ = accepted.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = accepted.Write([]byte(sorry))
		_ = accepted.Close()
	}
}

// add enters a connection, at the expense of the idlest when there is no room.
func (g *gate) add(c *gateConn) (evicted *gateConn, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.open) >= g.max {
		for other := range g.open {
			if other.busy == 0 && (evicted == nil || other.last.Before(evicted.last)) {
				evicted = other
			}
		}
		if evicted == nil {
			return nil, false
		}
		delete(g.open, evicted)
	}
	g.open[c] = struct{}{}
	return evicted, true
}

// Close closes the connection.
func (c *gateConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.open, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

type gateConnKey struct{}

// note lets requests know their connection.
func (g *gate) note(ctx context.Context, c net.Conn) context.Context {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = outer.NetConn()
	}
	return context.WithValue(ctx, gateConnKey{}, c)
}

// wrap counts the requests that a connection has in hand.
func (g *gate) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(gateConnKey{}).(*gateConn)
		if ok {
			g.hold(c, 1)
			defer g.hold(c, -1)
		}
		next.ServeHTTP(w, r)
	})
}

func (g *gate) hold(c *gateConn, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.busy += by
	c.last = time.Now()
}
