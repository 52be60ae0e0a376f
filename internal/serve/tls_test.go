package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate writes the test certificate of the standard library.
func writeCertificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	pair := s.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return cert, key, roots
}

func TestTLS(t *testing.T) {
	cert, key, roots := writeCertificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	h := &HTTP{Server: NewServer(Options{Tools: append(asking(), steps(3))}), Log: slog.New(slog.DiscardHandler), TLSCert: cert, TLSKey: key, Drain: time.Second}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, l) }()
	for _, isHTTP2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: isHTTP2}
		client := &http.Client{Transport: transport}
		post := func(body, session string) *http.Response {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+l.Addr().String()+"/mcp", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(headerSession, session)
			response, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			return response
		}
		response := post(initialize, "")
		response.Body.Close()
		if want := map[bool]int{false: 1, true: 2}[isHTTP2]; response.ProtoMajor != want {
			t.Errorf("HTTP/%d, want %d", response.ProtoMajor, want)
		}
		response = post(callLine("1", "steps", `"p"`), response.Header.Get(headerSession))
		data, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || strings.Count(string(data), "progressToken") != 3 || !strings.Contains(string(data), "done") {
			t.Errorf("%s, %v", data, err)
		}
		transport.CloseIdleConnections()
	}
	stop()
	if err := within(t, ended, "the end"); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestACertificateThatIsNotThereEndsServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &HTTP{Server: NewServer(Options{}), Log: slog.New(slog.DiscardHandler), TLSCert: "/no/cert.pem", TLSKey: "/no/key.pem", Drain: time.Second}
	if err := h.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "/no/cert.pem") {
		t.Errorf("Serve: %v", err)
	}
	l.Close()
}
