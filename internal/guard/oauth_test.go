package guard

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
)

const audience = "https://biocage.example.org/mcp"

// An authorization is an issuer of tokens on loopback.
type authorization struct {
	*httptest.Server

	mu      sync.Mutex
	keys    []jose.JSONWebKey // published
	raw     string            // published instead of keys
	status  int               // answered instead, when not 0
	fetches atomic.Int32      // of the keys
	entries atomic.Int32      // of the metadata
}

func newAuthorization(t *testing.T, keys ...jose.JSONWebKey) *authorization {
	t.Helper()
	a := &authorization{}
	a.publish(keys...)
	mux := http.NewServeMux()
	mux.HandleFunc("/realm/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		a.entries.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": a.URL + "/realm", "jwks_uri": a.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		a.fetches.Add(1)
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case a.status != 0:
			w.WriteHeader(a.status)
		case a.raw != "":
			_, _ = w.Write([]byte(a.raw))
		default:
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: a.keys})
		}
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

// publish sets the public halves of keys.
func (a *authorization) publish(keys ...jose.JSONWebKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = nil
	for _, key := range keys {
		a.keys = append(a.keys, key.Public())
	}
}

func (a *authorization) answer(status int, raw string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.raw = status, raw
}

func (a *authorization) options() Options {
	o := options()
	o.OAuth = OAuth{Issuer: a.URL + "/realm", Audience: audience, PrincipalClaim: "sub"}
	return o
}

func newKey(t *testing.T, id string, algorithm jose.SignatureAlgorithm) jose.JSONWebKey {
	t.Helper()
	var key any
	var err error
	switch algorithm {
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(algorithm), Use: "sig"}
}

// claims are those of a good token, changed by edits; nil removes one.
func (a *authorization) claims(edits map[string]any) map[string]any {
	now := time.Now().Unix()
	claims := map[string]any{
		"iss": a.URL + "/realm", "aud": audience, "sub": "ada", "exp": now + 300, "iat": now, "nbf": now, "scope": "run files",
	}
	maps.Copy(claims, edits)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

func sign(t *testing.T, key jose.JSONWebKey, claims map[string]any, kind string) string {
	t.Helper()
	opts := &jose.SignerOptions{}
	if kind != "" {
		opts = opts.WithType(jose.ContentType(kind))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func with(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }

func TestAccessTokens(t *testing.T) {
	key := newKey(t, "one", jose.ES256)
	a := newAuthorization(t, key)
	g := newGuard(t, a.options())
	now := time.Now().Unix()
	tests := []struct {
		name  string
		edits map[string]any
		kind  string
		want  error
	}{
		{"good", nil, "JWT", nil},
		{"of RFC 9068", nil, "at+jwt", nil},
		{"of RFC 9068, in full", nil, "application/at+jwt", nil},
		{"without a type", nil, "", nil},
		{"for several", map[string]any{"aud": []string{"x", audience}}, "", nil},
		{"expired within the leeway", map[string]any{"exp": now - 10}, "", nil},
		{"early within the leeway", map[string]any{"nbf": now + 10, "iat": now + 10}, "", nil},
		{"expired", map[string]any{"exp": now - 60}, "", errExpired},
		{"no end", map[string]any{"exp": nil}, "", errNoExpiry},
		{"too early", map[string]any{"nbf": now + 60}, "", errTooEarly},
		{"of the future", map[string]any{"iat": now + 60}, "", errTooEarly},
		{"wrong audience", map[string]any{"aud": "https://other.example.org"}, "", errAudience},
		{"audience with a slash", map[string]any{"aud": audience + "/"}, "", errAudience},
		{"no audience", map[string]any{"aud": nil}, "", errAudience},
		{"empty audience", map[string]any{"aud": []string{}}, "", errAudience},
		{"audience of a wrong type", map[string]any{"aud": 7}, "", errMalformed},
		{"wrong issuer", map[string]any{"iss": "https://evil.example"}, "", errIssuer},
		{"issuer with a slash", map[string]any{"iss": a.URL + "/realm/"}, "", errIssuer},
		{"no issuer", map[string]any{"iss": nil}, "", errIssuer},
		{"no subject", map[string]any{"sub": nil}, "", errNoSubject},
		{"empty subject", map[string]any{"sub": ""}, "", errNoSubject},
		{"a number as subject", map[string]any{"sub": 7}, "", errMalformed},
		{"subject with a line break", map[string]any{"sub": "a\nb"}, "", errNoSubject},
		{"endless subject", map[string]any{"sub": strings.Repeat("a", 256)}, "", errNoSubject},
		{"expiry as a text", map[string]any{"exp": "never"}, "", errMalformed},
		{"another kind of JWT", nil, "logout+jwt", errMalformed},
		{"a proof of possession", nil, "dpop+jwt", errMalformed},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := sign(t, key, a.claims(tt.edits), tt.kind)
			response := call(t, g, with(raw), from(fmt.Sprintf("10.1.0.%d:1", i)))
			text, challenge := body(t, response), response.Header.Get("WWW-Authenticate")
			if tt.want == nil {
				if want := "principal=" + a.URL + "/realm#ada"; response.StatusCode != http.StatusOK || text != want {
					t.Errorf("%d %q, want %q", response.StatusCode, text, want)
				}
				return
			}
			if response.StatusCode != http.StatusUnauthorized || !strings.Contains(challenge, `error="invalid_token", error_description="`+tt.want.Error()+`"`) ||
				!strings.Contains(challenge, `resource_metadata="https://biocage.example.org/.well-known/oauth-protected-resource/mcp"`) {
				t.Errorf("%d %q %q, want %v", response.StatusCode, text, challenge, tt.want)
			}
		})
	}
	if got := a.fetches.Load(); got != 1 {
		t.Errorf("the keys were fetched %d times", got)
	}
}

// forge makes a token of a header that no signer would make.
func forge(header, claims any, signature []byte) string {
	encode := func(value any) string {
		data, _ := json.Marshal(value)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	return encode(header) + "." + encode(claims) + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestForgedTokens(t *testing.T) {
	key, other, foreign := newKey(t, "one", jose.RS256), newKey(t, "two", jose.RS256), newKey(t, "one", jose.RS256)
	a := newAuthorization(t, key, other)
	g := newGuard(t, a.options())
	good := sign(t, key, a.claims(nil), "JWT")
	parts := strings.Split(good, ".")

	public := key.Key.(*rsa.PrivateKey).Public()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	jwk, err := json.Marshal(jose.JSONWebKey{Key: public, KeyID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	hmac := func(secret []byte) string {
		return sign(t, jose.JSONWebKey{Key: secret, KeyID: "one", Algorithm: string(jose.HS256)}, a.claims(nil), "JWT")
	}
	changed := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root"}`))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: foreign.Key}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	withKey, err := jwt.Signed(signer).Claims(a.claims(nil)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, token string }{
		{"none", forge(map[string]string{"alg": "none", "kid": "one"}, a.claims(nil), nil)},
		{"none in capitals", forge(map[string]string{"alg": "NONE", "kid": "one"}, a.claims(nil), nil)},
		{"none with a signature", forge(map[string]string{"alg": "none", "kid": "one"}, a.claims(nil), []byte("x"))},
		{"no algorithm", forge(map[string]string{"kid": "one"}, a.claims(nil), []byte("x"))},
		{"HS256 with the public key as PEM", hmac(publicPEM)},
		{"HS256 with the public key as DER", hmac(der)},
		{"HS256 with the public key as JWK", hmac(jwk)},
		{"signed by another with the same key id", sign(t, foreign, a.claims(nil), "JWT")},
		{"brings its own key", withKey},
		{"key of another algorithm", forge(map[string]string{"alg": "ES256", "kid": "one"}, a.claims(nil), make([]byte, 64))},
		{"other key id of the same issuer", strings.Join([]string{base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"two"}`)), parts[1], parts[2]}, ".")},
		{"changed claims", parts[0] + "." + changed + "." + parts[2]},
		{"no signature", parts[0] + "." + parts[1] + "."},
		{"cut", good[:len(good)-8]},
		{"critical header", forge(map[string]any{"alg": "RS256", "kid": "one", "crit": []string{"x"}, "x": 1}, a.claims(nil), []byte("x"))},
		{"not base64", "a.b.c"},
		{"only points", ".."},
		{"no claims", parts[0] + ".." + parts[2]},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := call(t, g, with(tt.token), from(fmt.Sprintf("10.2.0.%d:1", i)))
			if response.StatusCode != http.StatusUnauthorized {
				t.Errorf("%d %s", response.StatusCode, body(t, response))
			}
		})
	}
	if response := call(t, g, with(good)); response.StatusCode != http.StatusOK {
		t.Errorf("the good one: %d %s", response.StatusCode, body(t, response))
	}
}

func TestAlgorithms(t *testing.T) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.RS512, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA} {
		key := newKey(t, "k", algorithm)
		a := newAuthorization(t, key)
		if response := call(t, newGuard(t, a.options()), with(sign(t, key, a.claims(nil), ""))); response.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", algorithm, response.StatusCode, body(t, response))
		}
	}
}

func TestScopes(t *testing.T) {
	key := newKey(t, "one", jose.ES256)
	a := newAuthorization(t, key)
	o := a.options()
	o.OAuth.Scopes = []string{"run", "files"}
	g := newGuard(t, o)
	tests := []struct {
		name  string
		edits map[string]any
		want  int
	}{
		{"both", nil, 200},
		{"more", map[string]any{"scope": "x run files"}, 200},
		{"as a list", map[string]any{"scope": nil, "scp": []string{"files", "run"}}, 200},
		{"as one text", map[string]any{"scope": nil, "scp": "files run"}, 200},
		{"one", map[string]any{"scope": "run"}, 403},
		{"none", map[string]any{"scope": nil}, 403},
		{"alike", map[string]any{"scope": "run files:read"}, 403},
		{"a wrong type", map[string]any{"scope": 7}, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := call(t, g, with(sign(t, key, a.claims(tt.edits), "")))
			if response.StatusCode != tt.want {
				t.Errorf("%d %s", response.StatusCode, body(t, response))
			}
			challenge := response.Header.Get("WWW-Authenticate")
			if tt.want == 403 && (!strings.Contains(challenge, `error="insufficient_scope"`) || !strings.Contains(challenge, `scope="run files"`)) {
				t.Errorf("challenge %q", challenge)
			}
		})
	}
	if response := call(t, g, with(aliceToken)); response.StatusCode != http.StatusOK {
		t.Errorf("a token known beforehand beside the issuer: %d", response.StatusCode)
	}
}

// The name of a token and a person of the issuer are never the same principal.
func TestPrincipalsDoNotCollide(t *testing.T) {
	key := newKey(t, "one", jose.ES256)
	a := newAuthorization(t, key)
	o := a.options()
	o.OAuth.PrincipalClaim = "email"
	g := newGuard(t, o)
	for _, name := range []string{"alice", "token-0123456789", a.URL + "/realm#x"} {
		got := body(t, call(t, g, with(sign(t, key, a.claims(map[string]any{"email": name}), ""))))
		if want := "principal=" + a.URL + "/realm#" + name; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if _, faults := parseTokens([]string{a.URL + "#x:0123456789abcdef"}); len(faults) == 0 {
		t.Error("a token may have an issuer's name")
	}
}

func TestMetadata(t *testing.T) {
	a := newAuthorization(t)
	o := a.options()
	o.OAuth.Scopes = []string{"run"}
	asked := func(g *Guard, path string) (int, metadata) {
		response := call(t, g, target("GET", path), header("Authorization"), header("Content-Type"))
		var m metadata
		if response.StatusCode == http.StatusOK {
			if err := json.Unmarshal([]byte(body(t, response)), &m); err != nil {
				t.Fatal(err)
			}
		}
		return response.StatusCode, m
	}
	want := metadata{
		Resource: audience, AuthorizationServers: []string{a.URL + "/realm"}, ScopesSupported: []string{"run"},
		BearerMethods: []string{"header"}, ResourceName: "BioCage",
	}
	g := newGuard(t, o)
	for _, path := range []string{metadataPath, metadataPath + "/mcp", metadataPath + "/sse"} {
		if status, got := asked(g, path); status != 200 || !cmp.Equal(want, got) {
			t.Errorf("%s: %d\n%s", path, status, cmp.Diff(want, got))
		}
	}
	for _, path := range []string{metadataPath + "/other", metadataPath + "x", "/.well-known/openid-configuration", "/.well-known/"} {
		if status, _ := asked(g, path); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	o.OAuth.Audience, want.Resource = "api://biocage", "http://127.0.0.1:8765/mcp"
	g = newGuard(t, o)
	if status, got := asked(g, metadataPath+"/mcp"); status != 200 || !cmp.Equal(want, got) {
		t.Errorf("an audience that is no address: %d\n%s", status, cmp.Diff(want, got))
	}
	response := call(t, g, header("Authorization"))
	if got, want := response.Header.Get("WWW-Authenticate"),
		`Bearer realm="biocage", scope="run", resource_metadata="http://127.0.0.1:8765/.well-known/oauth-protected-resource/mcp"`; got != want {
		t.Errorf("challenge %s, want %s", got, want)
	}
}
