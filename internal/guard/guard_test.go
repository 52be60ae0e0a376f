package guard

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	aliceToken = "alice-has-a-token-of-more-than-32-characters"
	shortToken = "just-16-letters-"
	plainToken = "a-token-without-a-name-is-possible-too"
)

// options are what most tests use: a listener on loopback, three tokens, one
// allowed origin and two allowed hosts.
func options() Options {
	return Options{
		Listen:         "127.0.0.1:8765",
		Tokens:         []string{"alice:" + aliceToken, "shorty:" + shortToken, plainToken},
		AllowedOrigins: []string{"https://app.example.org"},
		AllowedHosts:   []string{"box.lan", "proxy.example.org:8443"},
		Tell:           io.Discard,
		Log:            slog.New(slog.DiscardHandler),
	}
}

func newGuard(t *testing.T, o Options) *Guard {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// whoami answers with the principal, and says "*" to all origins as some
// handlers do.
func whoami() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		_, _ = io.WriteString(w, "principal="+Principal(r.Context()))
	})
}

// A call is a request that a good client would make, changed by edits.
func call(t *testing.T, g *Guard, edits ...func(*http.Request)) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("{}"))
	r.Host = "127.0.0.1:8765"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+aliceToken)
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	g.Wrap(whoami()).ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, response *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del(name)
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
}

func target(method, path string) func(*http.Request) {
	return func(r *http.Request) {
		r.Method, r.URL.Path = method, path
	}
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

func TestPrincipals(t *testing.T) {
	g := newGuard(t, options())
	tests := []struct{ token, want string }{
		{aliceToken, "principal=alice"},
		{shortToken, "principal=shorty"},
		{plainToken, "principal=token-"},
	}
	for _, tt := range tests {
		response := call(t, g, header("Authorization", "Bearer "+tt.token))
		if got := body(t, response); response.StatusCode != http.StatusOK || !strings.HasPrefix(got, tt.want) {
			t.Errorf("token of %s: %d %q", tt.want, response.StatusCode, got)
		}
	}
	again := newGuard(t, options())
	if first, second := g.tokens[2].principal, again.tokens[2].principal; first != second {
		t.Errorf("the name of a token without one changes from start to start: %s, %s", first, second)
	}
}

func TestAuthorization(t *testing.T) {
	g := newGuard(t, options())
	tests := []struct {
		name    string
		headers []string
		want    int
		says    string
	}{
		{"none", nil, 401, "This server wants a token"},
		{"right", []string{"Bearer " + aliceToken}, 200, ""},
		{"the scheme in small letters", []string{"bearer " + aliceToken}, 200, ""},
		{"two spaces", []string{"Bearer  " + aliceToken}, 200, ""},
		{"wrong", []string{"Bearer " + strings.Repeat("x", len(aliceToken))}, 401, "it is not one of the tokens of this server"},
		{"truncated", []string{"Bearer " + aliceToken[:len(aliceToken)-1]}, 401, "it is not one of the tokens of this server"},
		{"longer", []string{"Bearer " + aliceToken + "x"}, 401, "it is not one of the tokens of this server"},
		{"other case", []string{"Bearer " + strings.ToUpper(aliceToken)}, 401, "it is not one of the tokens of this server"},
		{"with its name", []string{"Bearer alice:" + aliceToken}, 401, "must be there once and read: Bearer TOKEN"},
		{"no scheme", []string{aliceToken}, 401, "must be there once and read: Bearer TOKEN"},
		{"basic", []string{"Basic " + aliceToken}, 401, "must be there once and read: Bearer TOKEN"},
		{"tab", []string{"Bearer\t" + aliceToken}, 401, "must be there once and read: Bearer TOKEN"},
		{"empty", []string{""}, 401, "must be there once and read: Bearer TOKEN"},
		{"empty bearer", []string{"Bearer "}, 401, "must be there once and read: Bearer TOKEN"},
		{"twice", []string{"Bearer " + aliceToken, "Bearer " + aliceToken}, 401, "must be there once and read: Bearer TOKEN"},
		{"two in one", []string{"Bearer " + aliceToken + ", Bearer " + plainToken}, 401, "must be there once and read: Bearer TOKEN"},
		{"letters that are none", []string{"Bearer é" + aliceToken}, 401, "must be there once and read: Bearer TOKEN"},
		{"endless", []string{"Bearer " + strings.Repeat("a", 1<<20)}, 401, "must be there once and read: Bearer TOKEN"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := call(t, g, header("Authorization", tt.headers...), from("10.0.0."+string(rune('0'+i%10))+":1"))
			if response.StatusCode != tt.want {
				t.Fatalf("status %d, want %d: %s", response.StatusCode, tt.want, body(t, response))
			}
			challenge := response.Header.Get("WWW-Authenticate")
			if (tt.want == 401) != strings.HasPrefix(challenge, `Bearer realm="biocage"`) {
				t.Errorf("challenge %q", challenge)
			}
			if told := body(t, response); tt.want == 401 && !strings.Contains(told, tt.says) {
				t.Errorf("%q does not say %q", told, tt.says)
			}
			if strings.Contains(challenge, "resource_metadata") {
				t.Errorf("there is no issuer, yet: %q", challenge)
			}
		})
	}
}

func TestTokenInTheQueryIsNotLookedAt(t *testing.T) {
	g := newGuard(t, options())
	for _, name := range []string{"access_token", "token", "Authorization", "bearer"} {
		response := call(t, g, header("Authorization"), func(r *http.Request) { r.URL.RawQuery = name + "=" + aliceToken })
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("?%s=TOKEN: %d", name, response.StatusCode)
		}
	}
}

func TestContent(t *testing.T) {
	g := newGuard(t, options())
	tests := []struct {
		name  string
		edits []func(*http.Request)
		want  int
	}{
		{"JSON", nil, 200},
		{"charset", []func(*http.Request){header("Content-Type", "application/json; charset=utf-8")}, 200},
		{"charset in capitals", []func(*http.Request){header("Content-Type", "Application/JSON;charset=UTF-8")}, 200},
		{"other charset", []func(*http.Request){header("Content-Type", "application/json; charset=utf-16")}, 415},
		{"other parameter", []func(*http.Request){header("Content-Type", "application/json; x=text/plain")}, 415},
		{"none", []func(*http.Request){header("Content-Type")}, 415},
		{"text", []func(*http.Request){header("Content-Type", "text/plain")}, 415},
		{"text that mentions JSON", []func(*http.Request){header("Content-Type", "text/plain; application/json")}, 415},
		{"text first", []func(*http.Request){header("Content-Type", "text/plain, application/json")}, 415},
		{"a form", []func(*http.Request){header("Content-Type", "application/x-www-form-urlencoded")}, 415},
		{"multipart", []func(*http.Request){header("Content-Type", "multipart/form-data; boundary=x")}, 415},
		{"JSON of another kind", []func(*http.Request){header("Content-Type", "application/json-seq")}, 415},
		{"twice", []func(*http.Request){header("Content-Type", "application/json", "application/json")}, 415},
		{"PUT", []func(*http.Request){target("PUT", "/mcp"), header("Content-Type", "text/plain")}, 415},
		{"legacy messages", []func(*http.Request){target("POST", "/message"), header("Content-Type", "text/plain")}, 415},
		{"gzip", []func(*http.Request){header("Content-Encoding", "gzip")}, 415},
		{"identity", []func(*http.Request){header("Content-Encoding", "identity")}, 200},
		{"identity and gzip", []func(*http.Request){header("Content-Encoding", "identity", "gzip")}, 415},
		{"GET has no body", []func(*http.Request){target("GET", "/sse"), header("Content-Type")}, 200},
		{"DELETE has no body", []func(*http.Request){target("DELETE", "/mcp"), header("Content-Type")}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := call(t, g, tt.edits...)
			if response.StatusCode != tt.want {
				t.Errorf("status %d, want %d: %s", response.StatusCode, tt.want, body(t, response))
			}
		})
	}
}

func TestOpenPaths(t *testing.T) {
	o := options()
	o.Listen = "0.0.0.0:8765"
	g := newGuard(t, o)
	tests := []struct {
		name, method, path, host, token string
		want                            int
	}{
		{"health on loopback", "GET", "/healthz", "localhost:8765", "", 200},
		{"health on IPv6", "HEAD", "/healthz", "[::1]:8765", "", 200},
		{"health from elsewhere", "GET", "/healthz", "box.lan:8765", "", 401},
		{"health from elsewhere with a token", "GET", "/healthz", "box.lan:8765", aliceToken, 200},
		{"below health", "GET", "/healthz/x", "localhost:8765", "", 401},
		{"posting to health", "POST", "/healthz", "localhost:8765", "", 401},
		{"metrics", "GET", "/metrics", "localhost:8765", "", 401},
		{"metrics with a token", "GET", "/metrics", "localhost:8765", aliceToken, 200},
		{"events", "GET", "/sse", "localhost:8765", "", 401},
		{"the root", "GET", "/", "localhost:8765", "", 401},
		{"a way around", "GET", "/healthz/../mcp", "localhost:8765", "", 401},
		{"no issuer, no metadata", "GET", "/.well-known/oauth-protected-resource", "localhost:8765", "", 404},
		{"nothing else is well known", "GET", "/.well-known/../mcp", "localhost:8765", "", 404},
		{"options", "OPTIONS", "/mcp", "localhost:8765", "", 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			edits := []func(*http.Request){target(tt.method, tt.path), host(tt.host), header("Authorization")}
			if tt.token != "" {
				edits = append(edits, header("Authorization", "Bearer "+tt.token))
			}
			if response := call(t, g, edits...); response.StatusCode != tt.want {
				t.Errorf("status %d, want %d: %s", response.StatusCode, tt.want, body(t, response))
			}
		})
	}
}

// Neither a token nor what was presented as one appears in the log, and a
// flood of refusals is logged as a few lines and a number.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	o := options()
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	g := newGuard(t, o)
	const secret = "presented-by-somebody-who-guesses-0123456789"
	for range 1000 {
		call(t, g, header("Authorization", "Bearer "+secret), func(r *http.Request) {
			r.URL.RawQuery = "access_token=" + secret
			r.URL.Path = "/" + strings.Repeat("p", 1000)
		})
	}
	call(t, g)
	text := log.String()
	for _, token := range []string{secret, aliceToken, plainToken, shortToken} {
		if strings.Contains(text, token) {
			t.Errorf("the log holds the token %s", token)
		}
	}
	if lines := strings.Count(text, "\n"); lines < 5 || lines > 60 {
		t.Errorf("%d lines for 1000 refusals", lines)
	}
	if len(text) > 60*500 {
		t.Errorf("the log has %d bytes", len(text))
	}
}

func TestPreflight(t *testing.T) {
	g := newGuard(t, options())
	ask := func(origin, headers string) *http.Response {
		return call(t, g, target("OPTIONS", "/mcp"), header("Authorization"), header("Content-Type"),
			header("Origin", origin), header("Sec-Fetch-Site", "cross-site"), header("Access-Control-Request-Method", "POST"),
			header("Access-Control-Request-Headers", headers))
	}
	response := ask("https://app.example.org", "authorization,content-type,mcp-session-id,mcp-new-header,x-evil")
	if response.StatusCode != http.StatusNoContent {
		t.Errorf("status %d", response.StatusCode)
	}
	want := map[string]string{
		"Access-Control-Allow-Origin":      "https://app.example.org",
		"Access-Control-Allow-Methods":     "GET, POST, DELETE",
		"Access-Control-Allow-Headers":     "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, mcp-session-id, mcp-new-header",
		"Access-Control-Max-Age":           "600",
		"Access-Control-Allow-Credentials": "",
	}
	for name, value := range want {
		if diff := cmp.Diff(value, response.Header.Get(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, origin := range []string{"https://evil.example", "null", "http://localhost:8765", "https://app.example.org.evil.example"} {
		response := ask(origin, "authorization")
		if got := response.Header.Get("Access-Control-Allow-Origin"); got != "" || response.StatusCode < 400 {
			t.Errorf("origin %s: %d, allowed %q", origin, response.StatusCode, got)
		}
	}
}

// What an allowed page may read is said by the guard alone, whatever the
// handlers behind it say.
func TestCrossOriginHeaders(t *testing.T) {
	g := newGuard(t, options())
	for _, token := range []string{aliceToken, "wrong-but-long-enough"} {
		response := call(t, g, header("Origin", "https://app.example.org"), header("Sec-Fetch-Site", "cross-site"), header("Authorization", "Bearer "+token))
		h := response.Header
		if h.Get("Access-Control-Allow-Origin") != "https://app.example.org" || h.Get("Access-Control-Allow-Credentials") != "" ||
			!strings.Contains(h.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") || h.Get("Vary") != "Origin" {
			t.Errorf("token %s: %v", token, h)
		}
	}
	response := call(t, g)
	for name := range response.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("without an origin: %s: %s", name, response.Header.Get(name))
		}
	}
	if response.Header.Get("X-Content-Type-Options") != "nosniff" || response.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
		t.Errorf("headers: %v", response.Header)
	}
}

// Event streams flush and set deadlines through the guard.
func TestStreamsPass(t *testing.T) {
	g := newGuard(t, options())
	server := httptest.NewServer(g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(http.Flusher); !ok {
			t.Error("the writer cannot flush")
		}
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Errorf("EnableFullDuplex: %v", err)
		}
		_, _ = io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "localhost:8765"
	request.Header.Set("Authorization", "Bearer "+aliceToken)
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, 6)
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "first\n" {
		t.Errorf("first event: %q, %v", first, err)
	}
}
