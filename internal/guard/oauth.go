package guard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// wellKnown begins the addresses of RFC 8615; metadataPath is the one of
	// RFC 9728, which may have a resource's path behind it.
	wellKnown    = "/.well-known/"
	metadataPath = wellKnown + "oauth-protected-resource"

	// leeway is by how much the issuer's clock may differ.
	leeway = 30 * time.Second
)

// algorithms are those whose keys can be public. "none" and the HMAC ones are
// missing, so that a public key can never pass for a secret.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
		jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// A resourceServer verifies the access tokens of one issuer.
type resourceServer struct {
	issuer   string
	audience string
	claim    string
	scopes   []string
	resource *url.URL // the audience, when it is a URL
	scheme   string   // of the listener
	keys     *keySet
}

// newResourceServer expects checked options.
func newResourceServer(o Options) *resourceServer {
	s := &resourceServer{
		issuer: o.OAuth.Issuer, audience: o.OAuth.Audience, claim: o.OAuth.PrincipalClaim, scopes: o.OAuth.Scopes,
		scheme: newSources(o).scheme, keys: newKeySet(o),
	}
	if u, err := url.Parse(o.OAuth.Audience); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
		s.resource = u
	}
	return s
}

// isJWT tells a signed JWT from other tokens by its form.
func isJWT(secret string) bool { return strings.Count(secret, ".") == 2 }

// verify gives the principal of an access token.
func (s *resourceServer) verify(ctx context.Context, raw string) (string, error) {
	parsed, err := jwt.ParseSigned(raw, algorithms())
	if err != nil || len(parsed.Headers) != 1 || !isAccessToken(parsed.Headers[0]) {
		return "", errMalformed
	}
	header := parsed.Headers[0]
	candidates, err := s.keys.find(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if err != nil {
		return "", err
	}
	for _, key := range candidates {
		var registered jwt.Claims
		var claims map[string]any
		err := parsed.Claims(key.Key, &registered, &claims)
		switch {
		case errors.Is(err, jose.ErrCryptoFailure):
			continue
		case err != nil:
			return "", errMalformed
		}
		return s.principal(registered, claims)
	}
	return "", errSignature
}

// isAccessToken looks at the declared type. Issuers declare none, JWT or the
// one of RFC 9068; other kinds of JWT that they sign are no access tokens.
func isAccessToken(header jose.Header) bool {
	declared, isThere := header.ExtraHeaders[jose.HeaderType]
	if !isThere {
		return true
	}
	name, _ := declared.(string)
	name = strings.TrimPrefix(strings.ToLower(name), "application/")
	return name == "jwt" || name == "at+jwt"
}

// principal checks the claims of a token whose signature is right.
func (s *resourceServer) principal(registered jwt.Claims, claims map[string]any) (string, error) {
	if err := s.validate(registered); err != nil {
		return "", err
	}
	name, ok := claims[s.claim].(string)
	if !ok || name == "" || len(name) > 255 || strings.ContainsFunc(name, isControl) {
		return "", errNoSubject
	}
	granted := append(wordsOf(claims["scope"]), wordsOf(claims["scp"])...)
	for _, scope := range s.scopes {
		if !slices.Contains(granted, scope) {
			return "", errScope
		}
	}
	return s.issuer + "#" + name, nil // an issuer has no fragment: the first # ends it
}

// validate checks the claims that every token has.
func (s *resourceServer) validate(registered jwt.Claims) error {
	err := registered.ValidateWithLeeway(jwt.Expected{Issuer: s.issuer, AnyAudience: jwt.Audience{s.audience}, Time: time.Now()}, leeway)
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return errIssuer
	case errors.Is(err, jwt.ErrInvalidAudience):
		return errAudience
	case errors.Is(err, jwt.ErrExpired):
		return errExpired
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errTooEarly
	case err != nil:
		return errMalformed
	case registered.Expiry == nil:
		return errNoExpiry
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }

// wordsOf reads a claim of scopes: a text with spaces, or a list.
func wordsOf(claim any) []string {
	switch claim := claim.(type) {
	case string:
		return strings.Fields(claim)
	case []any:
		var words []string
		for _, item := range claim {
			if word, ok := item.(string); ok {
				words = append(words, word)
			}
		}
		return words
	}
	return nil
}

// MetadataHandler tells clients where they get a token (RFC 9728), at
// /.well-known/oauth-protected-resource and the same with the path of a
// resource behind it. Without an issuer there is nothing to tell, which is 404.
// [Guard.Wrap] serves it too.
func (g *Guard) MetadataHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		suffix, ok := strings.CutPrefix(r.URL.Path, metadataPath)
		if g.oauth == nil || !ok || !g.oauth.hasResource(suffix) {
			http.Error(w, "Nothing is here.", http.StatusNotFound)
			return
		}
		body, err := json.Marshal(g.oauth.metadata(r, suffix))
		if err != nil {
			http.Error(w, "The metadata cannot be written.", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=300")
		_, _ = w.Write(body) // the client is gone then
	})
}

// hasResource tells whether a path is one that clients know the server by.
func (s *resourceServer) hasResource(path string) bool {
	known := []string{"", mcpPath, "/sse"}
	return slices.Contains(known, path) || s.resource != nil && path == strings.TrimSuffix(s.resource.EscapedPath(), "/")
}

type metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	ResourceName         string   `json:"resource_name"`
}

// metadata names the audience as the resource, because clients ask the issuer
// for a token for just that. An audience that is no URL cannot be named; then
// it is the address that the client used.
func (s *resourceServer) metadata(r *http.Request, suffix string) metadata {
	resource := s.scheme + "://" + r.Host + suffix
	if s.resource != nil {
		resource = s.audience
	}
	return metadata{
		Resource: resource, AuthorizationServers: []string{s.issuer}, ScopesSupported: s.scopes,
		BearerMethods: []string{"header"}, ResourceName: "BioCage",
	}
}

// metadataURL is where the metadata of the server are, as the client reaches
// it. The Host header has been checked.
func (s *resourceServer) metadataURL(r *http.Request) string {
	if s.resource != nil {
		return s.resource.Scheme + "://" + s.resource.Host + metadataPath + strings.TrimSuffix(s.resource.EscapedPath(), "/")
	}
	return s.scheme + "://" + r.Host + metadataPath + mcpPath
}
