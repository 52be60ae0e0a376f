package dockerproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Inspect is the end of the path of a container's description.
const Inspect = "/json"

// A Fault applies to requests by their method and the end of their path; empty
// ones match all.
type Fault struct {
	Method, Path string
	Before       func(http.ResponseWriter, *http.Request) bool // true: it has answered
	After        func(*http.Response) error
}

// matches leaves out the list of containers, whose path ends as Inspect.
func (f *Fault) matches(r *http.Request) bool {
	switch {
	case f == nil, f.Method != "" && f.Method != r.Method, !strings.HasSuffix(r.URL.Path, f.Path):
		return false
	}
	return f.Path != Inspect || !strings.HasSuffix(r.URL.Path, "/containers/json")
}

// A Proxy listens on a socket of its own.
type Proxy struct {
	dir    string
	server *http.Server
	fault  atomic.Pointer[Fault]
	met    atomic.Int64
	served chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]bool // to the daemon; guarded by mu
}

// New starts a proxy for the daemon at a socket, unix:///…; ctx carries values
// only.
func New(ctx context.Context, daemon string) (*Proxy, error) {
	dir, err := os.MkdirTemp("", "bc") // short, as a socket's path must be
	if err != nil {
		return nil, fmt.Errorf("make the proxy's directory: %w", err)
	}
	p := &Proxy{dir: dir, served: make(chan struct{}), conns: map[net.Conn]bool{}}
	listener, err := (&net.ListenConfig{}).Listen(context.WithoutCancel(ctx), "unix", p.socket())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the daemon: %w", err), os.RemoveAll(dir))
	}
	p.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: p.handler(strings.TrimPrefix(daemon, "unix://"))}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(listener) // it ends by Close
	}()
	return p, nil
}

func (p *Proxy) socket() string { return filepath.Join(p.dir, "d.sock") }

// Host is where the proxy listens, as DOCKER_HOST names it.
func (p *Proxy) Host() string { return "unix://" + p.socket() }

// Set brings a fault about from now on; nil ends it. It counts anew what meets it.
func (p *Proxy) Set(f *Fault) {
	p.fault.Store(f)
	p.met.Store(0)
}

// Met tells how many requests and answers the fault has met.
func (p *Proxy) Met() int64 { return p.met.Load() }

// Cut closes every connection to the daemon, in the middle of whatever they carry.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close() // that is the point
	}
}

// Hang stops listening: the daemon is no longer there. Streams go on.
func (p *Proxy) Hang() error { return p.server.Close() }

// Close ends the proxy with all its connections.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.Cut()
	<-p.served
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *Proxy) handler(daemon string) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{
			DisableKeepAlives: true, // so that a restarted daemon is a new one
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, "unix", daemon)
				if err != nil {
					return nil, err
				}
				return p.track(conn), nil
			},
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // faults are wanted
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "docker"
		},
		ModifyResponse: func(r *http.Response) error {
			if f := p.fault.Load(); f.matches(r.Request) && f.After != nil {
				p.met.Add(1)
				return f.After(r)
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := p.fault.Load(); f.matches(r) && f.Before != nil {
			p.met.Add(1)
			if f.Before(w, r) {
				return
			}
		}
		proxy.ServeHTTP(w, r)
	})
}

// track remembers a connection until it is closed.
func (p *Proxy) track(conn net.Conn) net.Conn {
	t := &tracked{Conn: conn, proxy: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
	return t
}

// A tracked connection can be cut by its proxy. Half of it can be closed, as
// a hijacked stream needs it.
type tracked struct {
	net.Conn
	proxy *Proxy
}

// Close implements net.Conn.
func (t *tracked) Close() error {
	t.proxy.mu.Lock()
	delete(t.proxy.conns, t.Conn)
	t.proxy.mu.Unlock()
	return t.Conn.Close()
}

// CloseWrite ends what is sent, and leaves what is received.
func (t *tracked) CloseWrite() error {
	half, ok := t.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Status answers instead of the daemon.
func Status(code int, message string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"message":"`+message+`"}`) // the client may have gone
		return true
	}
}

// Slow holds a request up, and then passes it on.
func Slow(d time.Duration) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
		return false
	}
}

// Drop loses an answer: the daemon has done what it was asked for.
func Drop(*http.Response) error { return errors.New("dropped") }
