package guard

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
)

// Options say who may call. The texts are those of the configuration's section
// server.
type Options struct {
	Listen string   // HOST:PORT, as configured
	Addr   net.Addr // of the listener, when there is one; tells a port that was left to the system
	TLS    bool     // whether the listener speaks TLS

	Tokens         []string // TOKEN or NAME:TOKEN
	TokenFile      string   // holds one more; made when it is absent
	AllowedOrigins []string
	AllowedHosts   []string
	OAuth          OAuth

	Tell      io.Writer         // where a new token is told, once: standard error
	Log       *slog.Logger      // never sees a token
	Transport http.RoundTripper // to the issuer; nil: a plain one
}

// OAuth makes the server a resource server of an OAuth 2.1 issuer. The zero
// value is none.
type OAuth struct {
	Issuer         string
	Audience       string   // who tokens must be meant for: the server's URL, as a rule
	JWKSURL        string   // "": asked of the issuer's metadata
	Scopes         []string // all of them are required
	PrincipalClaim string   // the claim that tells whose a token is
}

func (o OAuth) isSet() bool {
	return o.Issuer != "" || o.Audience != "" || o.JWKSURL != "" || len(o.Scopes) > 0
}

// A Fault is one thing that is wrong with the options.
type Fault struct {
	Key     string // below server, such as tokens[0] or oauth.issuer
	Message string // what would be right; nothing of a token
}

// Faults are all that is wrong with the texts. A Guard is made of options
// without faults only.
func (o Options) Faults() []Fault {
	_, faults := parseTokens(o.Tokens)
	for i, text := range o.AllowedOrigins {
		if _, ok := parseOrigin(text); !ok {
			faults = append(faults, Fault{fmt.Sprintf("allowed_origins[%d]", i), "must be an origin, such as https://example.org"})
		}
	}
	for i, text := range o.AllowedHosts {
		if _, ok := parseAuthority(text); !ok {
			faults = append(faults, Fault{fmt.Sprintf("allowed_hosts[%d]", i), "must be a host name, with a port when it has one"})
		}
	}
	if o.TokenFile != "" && !filepath.IsAbs(o.TokenFile) {
		faults = append(faults, Fault{"token_file", "must be an absolute path"})
	}
	faults = append(faults, o.OAuth.faults()...)
	if err := CheckListen(o.Listen, len(o.Tokens) > 0 || o.TokenFile != "" || o.OAuth.isSet()); err != nil {
		faults = append(faults, Fault{"listen", err.Error()})
	}
	return faults
}

func (o OAuth) faults() []Fault {
	if !o.isSet() {
		return nil
	}
	var faults []Fault
	check := func(key string, err error) {
		if err != nil {
			faults = append(faults, Fault{"oauth." + key, err.Error()})
		}
	}
	check("issuer", checkURL(o.Issuer, false))
	if o.JWKSURL != "" {
		check("jwks_url", checkURL(o.JWKSURL, true))
	}
	if o.Audience == "" || strings.ContainsFunc(o.Audience, isSpaceOrControl) {
		check("audience", errors.New("must say who the issuer's tokens are meant for, such as https://biocage.example.org/mcp"))
	}
	if o.PrincipalClaim == "" || strings.ContainsFunc(o.PrincipalClaim, isSpaceOrControl) {
		check("principal_claim", errors.New("must name the claim that tells whose a token is, such as sub"))
	}
	for i, scope := range o.Scopes {
		if scope == "" || strings.ContainsFunc(scope, isNoScope) {
			check(fmt.Sprintf("scopes[%d]", i), errors.New("must be a scope: ASCII without spaces, quotes and backslashes"))
		}
	}
	return faults
}

// checkURL demands https, because whoever can change what is fetched can make
// tokens. Loopback is this machine's own business.
func checkURL(text string, mayQuery bool) error {
	u, err := url.Parse(text)
	if err != nil || strings.ContainsFunc(text, isSpaceOrControl) {
		return errors.New("must be a URL, such as https://issuer.example.org")
	}
	at, ok := parseAuthority(u.Host)
	isSafe := u.Scheme == "https" || u.Scheme == "http" && at.isLoopback()
	hasQuery := u.RawQuery != "" || u.ForceQuery
	switch {
	case !ok || u.User != nil || strings.Contains(text, "#"):
		return errors.New("must be a URL with a host, without user and fragment, such as https://issuer.example.org")
	case hasQuery && !mayQuery:
		return errors.New("must have no query")
	case !isSafe:
		return errors.New("must begin with https://; http:// is for loopback addresses only")
	}
	return nil
}

func isSpaceOrControl(r rune) bool { return r <= ' ' || r == 0x7f }

// isNoScope tells the characters that RFC 6749 leaves out of scopes.
func isNoScope(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }
