package guard

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// sources is where requests may come from: the names of this server that they
// may use, and the web origins that may send them.
type sources struct {
	scheme  string // of the listener
	hosts   map[authority]bool
	own     map[origin]bool // the loopback origins that the listener itself is
	allowed map[origin]bool
}

// An origin is a web origin; its authority always has a port.
type origin struct {
	scheme string
	authority
}

// newSources expects checked options.
func newSources(o Options) sources {
	s := sources{scheme: "http", hosts: map[authority]bool{}, own: map[origin]bool{}, allowed: map[origin]bool{}}
	if o.TLS {
		s.scheme = "https"
	}
	host, port := o.where()
	for _, name := range loopbackNames() {
		a := authority{host: name, port: port}
		s.hosts[a], s.own[origin{scheme: s.scheme, authority: a}] = true, true
	}
	if a, ok := parseAuthority(net.JoinHostPort(host, port)); ok && !isWildcard(host) {
		s.hosts[a] = true
	}
	for _, text := range o.AllowedHosts {
		a, _ := parseAuthority(text)
		if a.port != "" {
			s.hosts[a] = true
			continue
		}
		for _, port := range []string{port, "80", "443"} { // a proxy in front may have the usual ports
			s.hosts[authority{host: a.host, port: port}] = true
		}
	}
	for _, text := range o.AllowedOrigins {
		from, _ := parseOrigin(text)
		s.allowed[from] = true
	}
	return s
}

// parseOrigin reads SCHEME://HOST[:PORT]. Nothing may stand around it, so
// there is no way to hide another host behind an @ or a path.
func parseOrigin(text string) (origin, bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return origin{}, false
	}
	a, ok := parseAuthority(rest)
	return origin{scheme: scheme, authority: a.withPort(scheme)}, ok
}

// check decides whether the request may come from where it does. allowed is
// its Origin header when that is a configured one, else "".
func (s sources) check(r *http.Request) (allowed string, refused *refusal) {
	host, ok := parseAuthority(r.Host)
	if !ok || !s.hosts[host.withPort(s.scheme)] {
		return "", &refusal{
			status: http.StatusForbidden, reason: "host",
			text: "This server is not known by the name in the Host header; use a loopback address with its port, or add the name to server.allowed_hosts.",
		}
	}
	sent := r.Header.Values("Origin")
	isOwn := len(sent) == 0
	if len(sent) == 1 {
		from, ok := parseOrigin(sent[0])
		if ok && s.allowed[from] {
			return sent[0], nil // whichever site it is: it has been named
		}
		isOwn = ok && s.own[from]
	}
	if !isOwn || isForeign(r) {
		return "", &refusal{
			status: http.StatusForbidden, reason: "origin",
			text: "Web pages of this origin may not use this server; add the origin to server.allowed_origins to let them.",
		}
	}
	return "", nil
}

// isForeign tells whether a browser says that another site's page made the
// request. Requests without an Origin, such as those of images and links, are
// told apart by this alone.
func isForeign(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), func(site string) bool {
		site = strings.ToLower(strings.TrimSpace(site))
		return site != "same-origin" && site != "none"
	})
}
