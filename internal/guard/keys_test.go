package guard

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A remote answers for the issuer without a network, so that time can be faked.
type remote struct {
	mu      sync.Mutex
	handler http.Handler // nil: the issuer is down
	fetches int
}

func (r *remote) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	handler := r.handler
	r.fetches++
	r.mu.Unlock()
	if handler == nil {
		return nil, io.ErrUnexpectedEOF
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request)
	return w.Result(), nil
}

func (r *remote) set(handler http.Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handler = handler
}

func (r *remote) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fetches
}

func publishing(keys ...jose.JSONWebKey) http.Handler {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, key := range keys {
		set.Keys = append(set.Keys, key.Public())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(set) })
}

// A station is a guard whose issuer is a remote.
type station struct {
	*remote
	guard  *Guard
	issuer *authorization
}

func newStation(t *testing.T) *station {
	t.Helper()
	s := &station{remote: &remote{}, issuer: &authorization{Server: &httptest.Server{URL: "https://issuer.example.org"}}}
	o := s.issuer.options()
	o.OAuth.JWKSURL, o.Transport = "https://issuer.example.org/keys", s.remote
	s.guard = newGuard(t, o)
	return s
}

func (s *station) try(t *testing.T, key jose.JSONWebKey) int {
	t.Helper()
	return call(t, s.guard, with(sign(t, key, s.issuer.claims(nil), ""))).StatusCode
}

func TestUnknownKeysFetchSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := newStation(t), newKey(t, "one", jose.ES256)
		s.set(publishing(key))
		storm := func() {
			var wg sync.WaitGroup
			for i := range 500 {
				wg.Go(func() {
					forged := key
					forged.KeyID = fmt.Sprintf("unknown-%d", i)
					raw := sign(t, forged, s.issuer.claims(nil), "")
					if got := call(t, s.guard, with(raw), from(fmt.Sprintf("10.3.%d.%d:1", i>>8, i&255))).StatusCode; got != 401 {
						t.Errorf("unknown key: status %d", got)
					}
				})
			}
			wg.Wait()
		}
		storm()
		if got := s.count(); got < 1 || got > fetchBurst {
			t.Errorf("%d fetches for 500 unknown keys", got)
		}
		if got := s.try(t, key); got != 200 {
			t.Errorf("the known key after the storm: status %d", got)
		}
		before := s.count()
		time.Sleep(10 * fetchInterval)
		storm()
		if got := s.count() - before; got < 1 || got > fetchBurst {
			t.Errorf("%d fetches after five minutes", got)
		}
	})
}

func TestRotatedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t)
		first, second := newKey(t, "one", jose.ES256), newKey(t, "two", jose.ES256)
		s.set(publishing(first))
		if got := s.try(t, first); got != 200 {
			t.Fatalf("first key: status %d", got)
		}
		s.set(publishing(second))
		if got := s.try(t, second); got != 200 {
			t.Errorf("second key, at once: status %d", got)
		}
		if got := s.try(t, first); got != 401 {
			t.Errorf("first key, withdrawn: status %d", got)
		}
		s.set(publishing()) // all withdrawn, although nobody presents an unknown one
		time.Sleep(freshFor)
		if got := s.try(t, second); got != 401 {
			t.Errorf("second key, withdrawn: status %d", got)
		}
	})
}

func TestIssuerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := newStation(t), newKey(t, "one", jose.ES256)
		response := call(t, s.guard, with(sign(t, key, s.issuer.claims(nil), "")))
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "30" {
			t.Errorf("down from the start: %d, Retry-After %q", response.StatusCode, response.Header.Get("Retry-After"))
		}
		if got := call(t, s.guard).StatusCode; got != 200 {
			t.Errorf("a token known beforehand: status %d", got)
		}
		s.set(publishing(key))
		if got := s.try(t, key); got != 200 {
			t.Errorf("up: status %d", got)
		}
		s.set(nil)
		for range 10 {
			time.Sleep(freshFor)
			if got := s.try(t, key); got != 200 {
				t.Fatalf("down, with keys: status %d", got)
			}
		}
		before := s.count()
		for range 100 {
			s.try(t, key)
		}
		if got := s.count() - before; got > fetchBurst {
			t.Errorf("100 calls asked the issuer %d times", got)
		}
		time.Sleep(usableFor)
		if got := s.try(t, key); got != 503 {
			t.Errorf("down for a day: status %d", got)
		}
		s.set(publishing(key))
		time.Sleep(fetchInterval)
		if got := s.try(t, key); got != 200 {
			t.Errorf("up again: status %d", got)
		}
	})
}

// While one request fetches, those whose key is known do not wait.
func TestASlowIssuerHoldsUpOneOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := newStation(t), newKey(t, "one", jose.ES256)
		s.set(publishing(key))
		s.try(t, key)
		time.Sleep(freshFor)
		var slow atomic.Int32
		s.set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			slow.Add(1)
			time.Sleep(time.Minute)
			w.WriteHeader(http.StatusBadGateway)
		}))
		done := make(chan int)
		go func() { done <- s.try(t, key) }()
		synctest.Wait()
		start := time.Now()
		for range 20 {
			if got := s.try(t, key); got != 200 {
				t.Errorf("status %d", got)
			}
		}
		if waited := time.Since(start); waited > 0 || slow.Load() != 1 {
			t.Errorf("others waited %s; %d fetches", waited, slow.Load())
		}
		if got := <-done; got != 200 {
			t.Errorf("the one that fetched: status %d", got)
		}
	})
}

// What the issuer publishes is bounded, and only public signing keys count.
func TestKeySets(t *testing.T) {
	key := newKey(t, "one", jose.RS256)
	public, err := json.Marshal(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	private, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	encryption := key.Public()
	encryption.Use = "enc"
	forEncryption, err := json.Marshal(encryption)
	if err != nil {
		t.Fatal(err)
	}
	set := func(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }
	tests := []struct {
		name, raw string
		status    int
		want      int
	}{
		{"good", set(string(public)), 0, 200},
		{"among others", set(`{"kty":"oct","k":"AAAA","kid":"one"}`, `{"kty":"new"}`, `7`, string(public)), 0, 200},
		{"private", set(string(private)), 0, 401},
		{"for encryption", set(string(forEncryption)), 0, 401},
		{"symmetric", set(`{"kty":"oct","k":"AAAA","kid":"one"}`), 0, 401},
		{"short", set(`{"kty":"RSA","kid":"one","e":"AQAB","n":"` + strings.Repeat("x", 171) + `"}`), 0, 401},
		{"empty", set(), 0, 401},
		{"too many", set(strings.TrimSuffix(strings.Repeat(string(public)+",", maxKeys+1), ",")), 0, 503},
		{"too long", set(string(public)) + strings.Repeat(" ", maxAnswer), 0, 503},
		{"no set", `{"jwks":[]}`, 0, 503},
		{"null", `null`, 0, 503},
		{"HTML", `<html>`, 0, 503},
		{"an error", set(string(public)), 500, 503},
		{"a redirect", set(string(public)), 302, 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAuthorization(t)
			a.answer(tt.status, tt.raw)
			if response := call(t, newGuard(t, a.options()), with(sign(t, key, a.claims(nil), ""))); response.StatusCode != tt.want {
				t.Errorf("%d %s, want %d", response.StatusCode, body(t, response), tt.want)
			}
		})
	}
}

func TestKeyWithoutID(t *testing.T) {
	key, other := newKey(t, "", jose.ES256), newKey(t, "", jose.ES256)
	a := newAuthorization(t, key, newKey(t, "rsa", jose.RS256))
	if response := call(t, newGuard(t, a.options()), with(sign(t, key, a.claims(nil), ""))); response.StatusCode != http.StatusOK {
		t.Errorf("the only key of its kind: %d", response.StatusCode)
	}
	a.publish(key, other)
	if response := call(t, newGuard(t, a.options()), with(sign(t, key, a.claims(nil), ""))); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("one of two keys: %d", response.StatusCode)
	}
}

func TestDiscovery(t *testing.T) {
	key := newKey(t, "one", jose.ES256)
	var base, claimed, keysAt string
	var place string
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case place:
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": claimed, "jwks_uri": keysAt})
		case "/keys":
			publishing(key).ServeHTTP(w, r)
		case "/moved":
			http.Redirect(w, r, "/keys", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	base = server.URL
	tests := []struct {
		name, path, place, claimed, keysAt string
		want                               int
	}{
		{"OpenID Connect", "/r", "/r/.well-known/openid-configuration", base + "/r", base + "/keys", 200},
		{"RFC 8414", "/r", "/.well-known/oauth-authorization-server/r", base + "/r", base + "/keys", 200},
		{"the path behind", "/r", "/.well-known/openid-configuration/r", base + "/r", base + "/keys", 200},
		{"no path", "", "/.well-known/oauth-authorization-server", base, base + "/keys", 200},
		{"a closing slash", "/", "/.well-known/openid-configuration", base + "/", base + "/keys", 200},
		{"somebody else's metadata", "/r", "/r/.well-known/openid-configuration", base + "/x", base + "/keys", 503},
		{"keys without TLS", "/r", "/r/.well-known/openid-configuration", base + "/r", "http://keys.example.org/", 503},
		{"keys in a file", "/r", "/r/.well-known/openid-configuration", base + "/r", "file:///etc/passwd", 503},
		{"no keys", "/r", "/r/.well-known/openid-configuration", base + "/r", "", 503},
		{"keys that moved", "/r", "/r/.well-known/openid-configuration", base + "/r", base + "/moved", 503},
		{"no metadata", "/r", "/nowhere", base + "/r", base + "/keys", 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			place, claimed, keysAt = tt.place, tt.claimed, tt.keysAt
			o := options()
			o.OAuth = OAuth{Issuer: base + tt.path, Audience: audience, PrincipalClaim: "sub"}
			claims := (&authorization{Server: server}).claims(map[string]any{"iss": base + tt.path})
			if response := call(t, newGuard(t, o), with(sign(t, key, claims, ""))); response.StatusCode != tt.want {
				t.Errorf("%d %s, want %d", response.StatusCode, body(t, response), tt.want)
			}
		})
	}
}

func TestRemoteMetadataDoNotLeadToThisMachine(t *testing.T) {
	r := &remote{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": "https://issuer.example.org", "jwks_uri": "http://127.0.0.1:1/"})
	})}
	i := newIssuer(Options{OAuth: OAuth{Issuer: "https://issuer.example.org"}, Transport: r})
	if _, err := i.fetchKeys(t.Context()); err == nil || !strings.Contains(err.Error(), "leads to this machine") {
		t.Errorf("fetchKeys: %v", err)
	}
	if got := r.count(); got != 2 {
		t.Errorf("%d fetches, want those of the metadata only", got)
	}
}
