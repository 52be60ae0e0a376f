package web

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// H01-H03, H06: what Chromium was seen to send for a page on another port of
// this machine, and what other pages send; with the right token, which no page
// should have. All is refused, and no page may read why.
func TestWebForeignOriginIsRefused(t *testing.T) {
	s := start(t, nil)
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	stream := s.openStream(adaToken)
	paths := []string{"/mcp", "/sse", "/message?sessionId=" + url.QueryEscape(stream.id), "/metrics", "/healthz", "/no-such-page"}
	pages := map[string][]string{
		"fetch of another port": {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"},
		"no-cors GET":           {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"},
		"another site's image":  {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
		"another site's link":   {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
		"an unknown site":       {"Sec-Fetch-Site", "something-new"},
		"WebSocket": {
			"Origin", "http://127.0.0.1:1", "Connection", "Upgrade", "Upgrade", "websocket",
			"Sec-Websocket-Version", "13", "Sec-Websocket-Key", "vx6mftAIi65TspPpsNygew==",
		},
		"own origin, said by another site": {"Origin", "http://127.0.0.1:" + port, "Sec-Fetch-Site", "cross-site"},
	}
	for _, origin := range []string{
		"https://evil.example", "null", "http://localhost.evil", "http://127.0.0.1:" + port + "@evil.example", "http://127.0.0.1:" + port + ".evil.example",
		"https://127.0.0.1:" + port, "http://127.0.0.1:" + port + "/", "http://127.0.0.1:" + port + "0", "http://127.0.0.1", "http://127.0.0.2:" + port,
		"http://0.0.0.0:" + port, "http://2130706433:" + port, "http://evil.example http://127.0.0.1:" + port, "file://", "chrome-extension://abcdefghijklmnop", "http://user@127.0.0.1:" + port,
	} {
		pages["Origin "+origin] = []string{"Origin", origin}
	}
	for name, headers := range pages {
		for _, path := range paths {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodPut, http.MethodHead} {
				q := request{method: method, path: path, headers: headers}
				if method == http.MethodPost {
					q.body = hello
				}
				got := s.send(q)
				if got.status != http.StatusForbidden {
					t.Errorf("%s: %s %s: %d %.200s", name, method, path, got.status, got.body)
				}
				s.unreadable(name, got)
			}
		}
	}
	if n := s.figure("biocage_protocol_sessions"); n != 1 {
		t.Errorf("%v protocol sessions live, want the stream alone", n)
	}
	s.served(10 * time.Second)
}

// unreadable checks that no page of another origin may read an answer.
func (s *server) unreadable(name string, got response) {
	s.t.Helper()
	for header := range got.header {
		if strings.HasPrefix(header, "Access-Control-") {
			s.t.Errorf("%s: the answer has %s: %q", name, header, got.header.Get(header))
		}
	}
}

// H06: a preflight never says yes to an origin that is not configured; a
// configured one gets in, and needs its token all the same.
func TestWebPreflights(t *testing.T) {
	s := start(t, map[string]any{"server": map[string]any{
		"tokens": []string{"ada:" + adaToken, "bob:" + bobToken}, "allowed_origins": []string{"https://app.example"},
	}})
	ask := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type", "Access-Control-Request-Private-Network", "true"}
	for origin, want := range map[string]string{
		"https://app.example": "https://app.example", "https://evil.example": "", "https://app.example.evil": "", "http://app.example": "", "null": "",
	} {
		got := s.send(request{method: http.MethodOptions, token: "-", headers: append([]string{"Origin", origin}, ask...)})
		if allowed := got.header.Get("Access-Control-Allow-Origin"); allowed != want {
			t.Errorf("%s: the preflight allows %q, want %q", origin, allowed, want)
		}
		if got.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: credentials are allowed", origin)
		}
	}
	for token, want := range map[string]int{"-": http.StatusUnauthorized, adaToken: http.StatusOK} {
		got := s.send(request{token: token, body: hello, headers: []string{"Origin", "https://app.example", "Sec-Fetch-Site", "cross-site"}})
		if got.status != want {
			t.Errorf("a configured page, token %q: %d %s", token, got.status, got.body)
		}
	}
}

// H02: what pages and forms may send without asking is refused by its type.
func TestWebForeignContentIsRefused(t *testing.T) {
	s := start(t, nil)
	stream := s.openStream(adaToken)
	for _, path := range []string{"/mcp", "/message?sessionId=" + url.QueryEscape(stream.id)} {
		for _, kind := range []string{
			"text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "-", "", "*/*", "text/json",
			"application/jsonx", "application/json, text/plain", "text/plain; application/json", "application/json; charset=utf-16", "application/json; charset=utf-7",
		} {
			if got := s.send(request{path: path, body: hello, headers: []string{"Content-Type", kind}}); got.status != http.StatusUnsupportedMediaType {
				t.Errorf("%s, type %q: %d %.200s", path, kind, got.status, got.body)
			}
		}
		for _, coding := range []string{"gzip", "br", "deflate", "zstd", "identity, gzip", "x-gzip"} {
			if got := s.send(request{path: path, body: hello, headers: []string{"Content-Encoding", coding}}); got.status != http.StatusUnsupportedMediaType {
				t.Errorf("%s, coding %q: %d %.200s", path, coding, got.status, got.body)
			}
		}
	}
	s.served(10 * time.Second)
}

// H04: a name that leads here by rebound DNS is refused, whatever the path and
// however it is written.
func TestWebForeignHostIsRefused(t *testing.T) {
	s := start(t, nil)
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"evil.example", "evil.example:" + port, "localhost.evil:" + port, "127.0.0.1.evil:" + port, "127.0.0.1:" + port + ".evil", "127.0.0.1:1", "127.0.0.1",
		"localhost", "0.0.0.0:" + port, "127.1:" + port, "2130706433:" + port, "0x7f.1:" + port, "[::ffff:127.0.0.1]:" + port, "192.168.1.10:" + port, "a@127.0.0.1:" + port,
		"[fe80::1]:" + port,
	} {
		for _, path := range []string{"/mcp", "/sse", "/healthz", "/metrics"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				got := s.bare(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", method, path, host, adaToken))
				if !strings.HasPrefix(got, "HTTP/1.1 403") && !strings.HasPrefix(got, "HTTP/1.1 400") {
					t.Errorf("%s %s with Host %s: %.200s", method, path, host, got)
				}
			}
		}
	}
	// An address in the request line counts as the host (RFC 9112).
	for head, want := range map[string]string{
		"GET http://evil.example/healthz HTTP/1.1\r\nHost: 127.0.0.1:" + port:                "403",
		"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nHost: evil.example":        "400",
		"GET /healthz HTTP/1.1\r\nX: y":                                                      "400",
		"GET /healthz HTTP/1.0\r\nX: y":                                                      "403",
		"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: 127.0.0.1:" + port: "403",
		"GET /healthz HTTP/1.1\r\nHost: LOCALHOST:" + port:                                   "200",
		"GET /healthz HTTP/1.1\r\nHost: [::1]:" + port:                                       "200",
		"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80":                          "403",
	} {
		if got := s.bare(head + "\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 "+want) && !strings.HasPrefix(got, "HTTP/1.0 "+want) {
			t.Errorf("%q: %.200s, want %s", head, got, want)
		}
	}
}

// bare sends bytes and gives all that comes.
func (s *server) bare(text string) string {
	s.t.Helper()
	c := s.dial()
	defer func() { _ = c.Close() }() // nothing is left to send
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	_, _ = c.Write([]byte(text)) // it may answer before it has read all
	var got strings.Builder
	part := make([]byte, 4096)
	for got.Len() < 1<<20 {
		n, err := c.Read(part)
		got.Write(part[:n])
		if err != nil {
			break
		}
	}
	return got.String()
}

// H05: only the whole token, in its header, and as it is; on each address but
// /healthz.
func TestWebWrongTokensAreRefused(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{"/mcp", "/sse", "/message", "/metrics", "/no-such-page", "//healthz", "/healthz/../metrics", "/mcp?token=" + adaToken, "/mcp?access_token=" + adaToken} {
		for _, headers := range [][]string{
			nil,
			{"Authorization", "Bearer " + adaToken[:len(adaToken)-1]},
			{"Authorization", "Bearer " + adaToken + "x"},
			{"Authorization", "Bearer " + strings.ToUpper(adaToken)},
			{"Authorization", "Bearer"},
			{"Authorization", "Basic " + adaToken},
			{"Authorization", adaToken},
			{"Authorization", "Bearer ada:" + adaToken},
			{"Cookie", "token=" + adaToken},
			{"X-Api-Key", adaToken},
			{"Proxy-Authorization", "Bearer " + adaToken},
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				got := s.send(request{method: method, path: path, token: "-", headers: headers, body: hello})
				if got.status != http.StatusUnauthorized && got.status != http.StatusTooManyRequests || got.status == 401 && got.header.Get("Www-Authenticate") == "" {
					t.Errorf("%s %s with %.60q: %d %.200s", method, path, headers, got.status, got.body)
				}
			}
		}
	}
	if strings.Contains(s.log.String(), adaToken) {
		t.Error("a token is in the log")
	}
	s.served(10 * time.Second) // who guesses shuts out nobody
}

// H07: only this machine can connect, unless it was asked for and there is
// authentication; a start that is refused says what to do, and nothing on
// standard output.
func TestWebStartsThatAreRefused(t *testing.T) {
	program := binary(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }() // nobody connects
	none := write(t, map[string]any{"engine": "gvisor"})
	unreadable := write(t, map[string]any{"engine": 7, "nonsense": true})
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"all addresses without a token", []string{"--transport", "http", "--listen", "0.0.0.0:0", "--config", none}, "server."},
		{"a port that is taken", []string{"--transport", "http", "--listen", taken.Addr().String(), "--config", none}, "choose another"},
		{"no port", []string{"--transport", "http", "--listen", "127.0.0.1", "--config", none}, "listen"},
		{"a transport that is not there", []string{"--transport", "websocket", "--config", none}, "transport"},
		{"no such file", []string{"--config", "/no/such/file.yaml"}, "/no/such/file.yaml"},
		{"a file that is wrong", []string{"--config", unreadable}, "nonsense"},
		{"an engine that is not there", []string{"--config", write(t, map[string]any{"engine": "magic"})}, "magic"},
		{"a key that is not there", []string{"--config", write(t, map[string]any{"session": map[string]any{"wram": 1}})}, "wram"},
		{"a flag that is not there", []string{"--no-such-flag"}, "no-such-flag"},
		{"a folder that is not absolute", []string{"--config", none, "relative"}, "absolute"},
		{"a token that is too short", []string{"--transport", "http", "--config", write(t, map[string]any{"server": map[string]any{"tokens": []string{"x"}}})}, "token"},
		{"a certificate without a key", []string{"--transport", "http", "--config", write(t, map[string]any{"server": map[string]any{"tls_cert": "/x"}})}, "tls_"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr lockedBuffer
			cmd := exec.CommandContext(t.Context(), program, append([]string{"serve"}, tt.args...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+shortDir(t))
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(hello+"\n"), &stdout, &stderr
			kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
			err := cmd.Run()
			if !kill.Stop() {
				t.Error("the start was not refused within 20 s")
			}
			if err == nil || stdout.String() != "" || !strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "goroutine ") {
				t.Errorf("ended with %v, standard output %q, standard error without %q:\n%s", err, stdout.String(), tt.want, stderr.String())
			}
		})
	}
}
