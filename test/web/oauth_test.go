package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// An issuer gives access tokens, on this machine.
type issuer struct {
	*httptest.Server
	key jose.JSONWebKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{key: newKey(t)}
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, content any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(content); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key.Public()}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func newKey(t *testing.T) jose.JSONWebKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: "k1", Algorithm: string(jose.ES256), Use: "sig"}
}

// token is a good one, changed by edits; nil removes a claim.
func (i *issuer) token(t *testing.T, key jose.JSONWebKey, edits map[string]any) string {
	t.Helper()
	now := time.Now().Unix()
	claims := map[string]any{"iss": i.URL, "aud": resource, "sub": "grace", "exp": now + 300, "iat": now, "scope": "biocage other"}
	maps.Copy(claims, edits)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const resource = "https://biocage.example.org/mcp"

// With an issuer: who has no token is told where to get one, and only a whole,
// fresh one for this server is let in; one that lacks a scope is told which.
func TestWebOAuth(t *testing.T) {
	i := newIssuer(t)
	s := start(t, map[string]any{"server": map[string]any{
		"tokens": []string{"ada:" + adaToken, "bob:" + bobToken},
		"oauth":  map[string]any{"issuer": i.URL, "audience": resource, "scopes": []string{"biocage"}},
	}})
	got := s.send(request{token: "-", body: hello})
	challenge := got.header.Get("Www-Authenticate")
	_, address, _ := strings.Cut(challenge, `resource_metadata="`)
	address, _, _ = strings.Cut(address, `"`)
	if got.status != http.StatusUnauthorized || !strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(challenge, `scope="biocage"`) {
		t.Errorf("without a token: %d %q", got.status, challenge)
	}
	i.describe(t, s, address)

	now := time.Now().Unix()
	stranger := newIssuer(t)
	for _, tt := range []struct {
		name   string
		token  string
		status int
		says   string
	}{
		{"good", i.token(t, i.key, nil), http.StatusOK, ""},
		{"several audiences", i.token(t, i.key, map[string]any{"aud": []string{"https://other.example", resource}}), http.StatusOK, ""},
		{"another audience", i.token(t, i.key, map[string]any{"aud": "https://other.example/mcp"}), http.StatusUnauthorized, "invalid_token"},
		{"no audience", i.token(t, i.key, map[string]any{"aud": nil}), http.StatusUnauthorized, "invalid_token"},
		{"a longer audience", i.token(t, i.key, map[string]any{"aud": resource + "/x"}), http.StatusUnauthorized, "invalid_token"},
		{"expired", i.token(t, i.key, map[string]any{"exp": now - 120}), http.StatusUnauthorized, "invalid_token"},
		{"never expires", i.token(t, i.key, map[string]any{"exp": nil}), http.StatusUnauthorized, "invalid_token"},
		{"not yet", i.token(t, i.key, map[string]any{"nbf": now + 600}), http.StatusUnauthorized, "invalid_token"},
		{"another issuer", stranger.token(t, stranger.key, nil), http.StatusUnauthorized, "invalid_token"},
		{"another key of the same name", i.token(t, newKey(t), nil), http.StatusUnauthorized, "invalid_token"},
		{"no scope", i.token(t, i.key, map[string]any{"scope": nil}), http.StatusForbidden, "insufficient_scope"},
		{"another scope", i.token(t, i.key, map[string]any{"scope": "biocages other"}), http.StatusForbidden, "insufficient_scope"},
		{"a token of the configuration", adaToken, http.StatusOK, ""},
	} {
		got := s.send(request{token: tt.token, body: hello})
		if got.status != tt.status || !strings.Contains(got.header.Get("Www-Authenticate"), tt.says) {
			t.Errorf("%s: %d %q %.200s, want %d with %q", tt.name, got.status, got.header.Get("Www-Authenticate"), got.body, tt.status, tt.says)
		}
	}
	i.apart(t, s)
	if log := s.log.String(); strings.Contains(log, "eyJ") {
		t.Error("a token is in the log")
	}
}

// describe checks the metadata at the address that the challenge names.
func (i *issuer) describe(t *testing.T, s *server, address string) {
	t.Helper()
	path, found := strings.CutPrefix(address, "http://"+s.address)
	if !found {
		path = strings.TrimPrefix(address, "https://biocage.example.org")
	}
	got := s.send(request{method: http.MethodGet, path: path, token: "-"})
	var metadata struct {
		Resource string   `json:"resource"`
		Issuers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	if err := json.Unmarshal([]byte(got.body), &metadata); err != nil || got.status != http.StatusOK {
		t.Fatalf("metadata at %q: %d %.300s", address, got.status, got.body)
	}
	if metadata.Resource != resource || len(metadata.Issuers) != 1 || metadata.Issuers[0] != i.URL || len(metadata.Scopes) != 1 {
		t.Errorf("metadata: %s", got.body)
	}
}

// apart checks that two people of the issuer are two principals.
func (i *issuer) apart(t *testing.T, s *server) {
	t.Helper()
	grace, eve := i.token(t, i.key, nil), i.token(t, i.key, map[string]any{"sub": "eve"})
	id := s.begin(grace)
	for token, want := range map[string]int{eve: http.StatusNotFound, adaToken: http.StatusNotFound, i.token(t, i.key, map[string]any{"jti": "new"}): http.StatusOK} {
		got := s.send(request{token: token, body: listTools, headers: []string{"Mcp-Session-Id", id}})
		if got.status != want {
			t.Errorf("the session of one person: %d, want %d", got.status, want)
		}
	}
}
