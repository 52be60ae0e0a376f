package dockerproxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// daemon is a server behind a proxy, and a client before it.
func daemon(t *testing.T, handler http.HandlerFunc) (*Proxy, *http.Client) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "d")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	p, err := New(t.Context(), "unix://"+socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(p.Host(), "unix://"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return p, &http.Client{Transport: transport}
}

func get(t *testing.T, c *http.Client, path string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://daemon"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

func TestFaults(t *testing.T) {
	p, c := daemon(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	ask := func(path string, wantStatus int, wantBody string, wantErr bool, met int64) {
		t.Helper()
		status, body, err := get(t, c, path)
		if status != wantStatus || body != wantBody || (err != nil) != wantErr || p.Met() < met { // clients try again
			t.Errorf("%s: %d %q, %v, met %d", path, status, body, err, p.Met())
		}
	}
	ask("/v1/x/json", 200, "/v1/x/json", false, 0)
	p.Set(&Fault{Method: http.MethodGet, Path: Inspect, Before: Status(500, "boom")})
	ask("/v1/x/json", 500, `{"message":"boom"}`, false, 1)
	ask("/v1/containers/json", 200, "/v1/containers/json", false, 1)
	p.Set(&Fault{After: Drop})
	ask("/any", 0, "", true, 1)
	p.Set(nil)
	ask("/any", 200, "/any", false, 0)
}

func TestCut(t *testing.T) {
	begun := make(chan struct{})
	p, c := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	})
	go func() { <-begun; p.Cut() }()
	if _, body, err := get(t, c, "/"); err == nil {
		t.Errorf("a cut stream ended well with %q", body)
	}
}
