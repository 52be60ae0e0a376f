package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Guard decides which requests reach the handlers behind it.
type Guard struct {
	sources  sources
	tokens   []token
	oauth    *resourceServer // nil without an issuer
	failures *failures
	refused  *refusalLog
}

// New makes a Guard. When neither tokens nor an issuer are configured, it makes
// a token and tells it.
func New(o Options) (*Guard, error) {
	var errs []error
	for _, f := range o.Faults() {
		errs = append(errs, fmt.Errorf("server.%s: %s", f.Key, f.Message))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	tokens, err := o.gatherTokens()
	if err != nil {
		return nil, err
	}
	if host, _ := o.where(); !isLoopbackHost(host) {
		o.Log.Warn("other machines can reach this server", "listen", o.Listen)
		if !o.TLS {
			o.Log.Warn("tokens and data cross the network as plain text; put TLS in front", "listen", o.Listen)
		}
	}
	g := &Guard{sources: newSources(o), tokens: tokens, failures: newFailures(), refused: newRefusalLog(o.Log)}
	if o.OAuth.isSet() {
		g.oauth = newResourceServer(o)
	}
	return g, nil
}

type principalKey struct{}

// Principal is the name of whoever made the request, "" when it came past no
// Guard: the name of a token, or the issuer and its claim for a person. Names
// of tokens hold no "#" and no ":", so the two are never the same.
func Principal(ctx context.Context) string {
	principal, _ := ctx.Value(principalKey{}).(string)
	return principal
}

// Wrap puts the guard in front of a handler.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, refused := g.sources.check(r)
		if refused == nil && origin != "" && isPreflight(r) {
			answerPreflight(w, r, origin)
			return
		}
		w = &headers{ResponseWriter: w, origin: origin}
		if refused == nil {
			refused = checkContent(r)
		}
		var principal string
		if refused == nil && !g.isOpen(r) {
			principal, refused = g.authenticate(r)
		}
		switch {
		case refused != nil:
			g.refused.add(r, refused)
			refused.write(w)
		case strings.HasPrefix(r.URL.Path, wellKnown):
			g.MetadataHandler().ServeHTTP(w, r)
		case principal != "":
			r = r.WithContext(context.WithValue(r.Context(), principalKey{}, principal))
			fallthrough
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isOpen tells what needs no token: whether the server lives, to whom is on
// its machine, and where to get a token.
func (g *Guard) isOpen(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if strings.HasPrefix(r.URL.Path, wellKnown) {
		return true
	}
	host, ok := parseAuthority(r.Host)
	return r.URL.Path == healthPath && ok && host.isLoopback()
}

// authenticate finds out whose request it is.
func (g *Guard) authenticate(r *http.Request) (principal string, refused *refusal) {
	secret, what := readBearer(r.Header.Values("Authorization"))
	if what == nothing {
		return "", &refusal{
			status: http.StatusUnauthorized, reason: "no_token", challenge: g.challenge(r, "", ""),
			text: "This server wants a token; send it in the header Authorization: Bearer TOKEN.",
		}
	}
	principal, isRight := match(g.tokens, secret)
	problem := errWrong
	if what == unusable {
		problem = errNoBearer
	}
	if !isRight && what == bearer && g.oauth != nil && isJWT(secret) {
		principal, problem = g.oauth.verify(r.Context(), secret)
		isRight = problem == nil
	}
	if errors.Is(problem, errNoKeys) {
		return "", &refusal{
			status: http.StatusServiceUnavailable, reason: "no_keys", retry: fetchInterval,
			text: "The token cannot be checked, because the keys of its issuer cannot be fetched at the moment; try again soon.",
		}
	}
	if errors.Is(problem, errScope) {
		return "", &refusal{
			status: http.StatusForbidden, reason: "scope", challenge: g.challenge(r, "insufficient_scope", problem.Error()),
			text: "The token lacks a scope; ask the issuer for: " + strings.Join(g.oauth.scopes, " ") + ".",
		}
	}
	switch g.failures.judge(addressOf(r.RemoteAddr), time.Now(), isRight, len(secret) < beyondGuessing) {
	case right:
		return principal, nil
	case wrong:
		return "", &refusal{
			status: http.StatusUnauthorized, reason: "wrong_token", challenge: g.challenge(r, "invalid_token", problem.Error()),
			text: "The token is not accepted: " + problem.Error() + ".",
		}
	default:
		return "", &refusal{
			status: http.StatusTooManyRequests, reason: "too_many_failures", retry: failureInterval,
			text: "Too many wrong tokens came from this address; wait a little and use the right one.",
		}
	}
}

// challenge is the WWW-Authenticate header of RFC 6750 and RFC 9728.
func (g *Guard) challenge(r *http.Request, code, description string) string {
	parts := []string{`realm="biocage"`}
	if code != "" {
		parts = append(parts, `error="`+code+`"`, `error_description="`+description+`"`)
	}
	if g.oauth != nil {
		if len(g.oauth.scopes) > 0 {
			parts = append(parts, `scope="`+strings.Join(g.oauth.scopes, " ")+`"`)
		}
		parts = append(parts, `resource_metadata="`+g.oauth.metadataURL(r)+`"`)
	}
	return "Bearer " + strings.Join(parts, ", ")
}
