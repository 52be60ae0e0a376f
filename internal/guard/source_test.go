package guard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	g := newGuard(t, options())
	tests := []struct {
		host string
		want int
	}{
		{"127.0.0.1:8765", 200},
		{"localhost:8765", 200},
		{"LOCALHOST:8765", 200},
		{"[::1]:8765", 200},
		{"[0:0:0:0:0:0:0:1]:8765", 200}, // the same address
		{"box.lan", 200},
		{"box.lan:8765", 200},
		{"Box.Lan:443", 200},
		{"proxy.example.org:8443", 200},

		{"", 403},
		{"evil.example", 403},
		{"evil.example:8765", 403},
		{"127.0.0.1", 403},      // that is port 80
		{"127.0.0.1:80", 403},   // another server's
		{"127.0.0.1:8766", 403}, // another server's
		{"127.0.0.1:08765", 403},
		{"127.0.0.1:+8765", 403},
		{"127.0.0.1:8765 ", 403},
		{"127.0.0.1:", 403},
		{"127.0.0.1:8765:8765", 403},
		{"127.0.0.1:74301", 403}, // 8765 + 65536
		{"127.0.0.2:8765", 403},
		{"127.1:8765", 403},
		{"2130706433:8765", 403},
		{"0x7f000001:8765", 403},
		{"0177.0.0.1:8765", 403},
		{"0.0.0.0:8765", 403}, // systems route it to loopback
		{"0:8765", 403},
		{"[::]:8765", 403},
		{"::1:8765", 403},
		{"[::1%25lo]:8765", 403},
		{"[::1%lo]:8765", 403},
		{"[::ffff:127.0.0.1]:8765", 403},
		{"[127.0.0.1]:8765", 403},
		{"[::1]8765", 403},
		{"[::1", 403},
		{"localhost.:8765", 403},
		{".localhost:8765", 403},
		{"localhost.evil.example:8765", 403},
		{"evil.localhost:8765", 403},
		{"127.0.0.1.nip.io:8765", 403},
		{"localhost@evil.example:8765", 403},
		{"evil.example#localhost:8765", 403},
		{"evil.example/localhost:8765", 403},
		{"localhost,evil.example:8765", 403},
		{"localhost:8765,evil.example", 403},
		{"lоcalhost:8765", 403}, // a Cyrillic o
		{"ⓛocalhost:8765", 403},
		{"localhost\x00:8765", 403},
		{"box.lan:9999", 403},
		{"a.box.lan", 403},
		{"xbox.lan", 403},
		{"proxy.example.org", 403},
	}
	for _, tt := range tests {
		t.Run(tt.host, func(t *testing.T) {
			if response := call(t, g, host(tt.host)); response.StatusCode != tt.want {
				t.Errorf("status %d, want %d: %s", response.StatusCode, tt.want, body(t, response))
			}
		})
	}
}

func TestOrigins(t *testing.T) {
	o := options()
	o.AllowedOrigins = append(o.AllowedOrigins, "http://localhost:6274", "http://plain.example.org:80")
	g := newGuard(t, o)
	tests := []struct {
		origins []string
		want    int
	}{
		{nil, 200},
		{[]string{"http://127.0.0.1:8765"}, 200},
		{[]string{"http://localhost:8765"}, 200},
		{[]string{"http://[::1]:8765"}, 200},
		{[]string{"https://app.example.org"}, 200},
		{[]string{"https://app.example.org:443"}, 200},
		{[]string{"HTTPS://APP.example.org"}, 200},
		{[]string{"http://localhost:6274"}, 200},
		{[]string{"http://plain.example.org"}, 200},

		{[]string{""}, 403},
		{[]string{"null"}, 403},
		{[]string{"*"}, 403},
		{[]string{"https://evil.example"}, 403},
		{[]string{"http://localhost"}, 403},
		{[]string{"http://localhost:3000"}, 403},
		{[]string{"https://localhost:8765"}, 403}, // the listener speaks http
		{[]string{"http://127.0.0.1"}, 403},
		{[]string{"http://localhost.evil"}, 403},
		{[]string{"http://localhost.evil:8765"}, 403},
		{[]string{"http://evil.localhost:8765"}, 403},
		{[]string{"http://127.0.0.1:8765@evil.example"}, 403},
		{[]string{"http://127.0.0.1:8765.evil.example"}, 403},
		{[]string{"http://127.0.0.1:8765:8765"}, 403},
		{[]string{"http://user@127.0.0.1:8765"}, 403},
		{[]string{"http://evil.example/127.0.0.1:8765"}, 403},
		{[]string{"http://127.0.0.1:8765/"}, 403},
		{[]string{"http://127.0.0.1:8765#x"}, 403},
		{[]string{"http://127.0.0.1:8765?x"}, 403},
		{[]string{`http://127.0.0.1:8765\@evil.example`}, 403},
		{[]string{" http://127.0.0.1:8765"}, 403},
		{[]string{"http://127.0.0.1:8765 "}, 403},
		{[]string{"http://127.0.0.1:8765 http://evil.example"}, 403},
		{[]string{"http://127.0.0.1:8765,http://evil.example"}, 403},
		{[]string{"http://127.0.0.1:8765", "http://127.0.0.1:8765"}, 403},
		{[]string{"https://app.example.org", "https://evil.example"}, 403},
		{[]string{"http:127.0.0.1:8765"}, 403},
		{[]string{"http:/127.0.0.1:8765"}, 403},
		{[]string{"http:///127.0.0.1:8765"}, 403},
		{[]string{"//127.0.0.1:8765"}, 403},
		{[]string{"127.0.0.1:8765"}, 403},
		{[]string{"http://"}, 403},
		{[]string{"http://:8765"}, 403},
		{[]string{"ftp://127.0.0.1:8765"}, 403},
		{[]string{"file://"}, 403},
		{[]string{"chrome-extension://abcdefghijklmnop"}, 403},
		{[]string{"http://0.0.0.0:8765"}, 403},
		{[]string{"http://127.1:8765"}, 403},
		{[]string{"http://[::ffff:127.0.0.1]:8765"}, 403},
		{[]string{"http://app.example.org"}, 403}, // another scheme is another origin
		{[]string{"https://app.example.org:8443"}, 403},
		{[]string{"https://app.example.org."}, 403},
		{[]string{"https://app.example.org.evil.example"}, 403},
		{[]string{"https://xapp.example.org"}, 403},
		{[]string{"https://a.app.example.org"}, 403},
		{[]string{"https://example.org"}, 403},
		{[]string{"https://app.example.org\r\nX: y"}, 403},
		{[]string{"https://app.example.org%00.evil.example"}, 403},
		{[]string{"http://box.lan:8765"}, 403}, // a host of ours is not an origin of ours
	}
	for _, tt := range tests {
		t.Run("", func(t *testing.T) {
			response := call(t, g, header("Origin", tt.origins...))
			if response.StatusCode != tt.want {
				t.Errorf("Origin %q: status %d, want %d", tt.origins, response.StatusCode, tt.want)
			}
			if allowed := response.Header.Get("Access-Control-Allow-Origin"); tt.want == 403 && allowed != "" {
				t.Errorf("Origin %q is told that %q may read", tt.origins, allowed)
			}
		})
	}
}

func TestFetchSite(t *testing.T) {
	g := newGuard(t, options())
	tests := []struct {
		origin string
		sites  []string
		want   int
	}{
		{"", nil, 200},
		{"", []string{"none"}, 200},
		{"", []string{"same-origin"}, 200},
		{"", []string{"cross-site"}, 403},
		{"", []string{"Cross-Site"}, 403},
		{"", []string{"same-site"}, 403}, // a page on another port of this machine
		{"", []string{"same-origin", "cross-site"}, 403},
		{"", []string{"whatever"}, 403},
		{"http://localhost:8765", []string{"same-origin"}, 200},
		{"http://localhost:8765", []string{"cross-site"}, 403},
		{"https://app.example.org", []string{"cross-site"}, 200}, // named, so meant
		{"https://evil.example", []string{"same-origin"}, 403},
	}
	for _, tt := range tests {
		edits := []func(*http.Request){header("Sec-Fetch-Site", tt.sites...)}
		if tt.origin != "" {
			edits = append(edits, header("Origin", tt.origin))
		}
		if response := call(t, g, edits...); response.StatusCode != tt.want {
			t.Errorf("Origin %q, Sec-Fetch-Site %q: status %d, want %d", tt.origin, tt.sites, response.StatusCode, tt.want)
		}
	}
}

// The port of the listener counts, not the configured one, and TLS changes
// which origins are its own.
func TestListenerDecides(t *testing.T) {
	o := options()
	o.Listen, o.Addr, o.TLS = "192.0.2.7:0", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 443}, true
	g := newGuard(t, o)
	for name, want := range map[string]int{
		"192.0.2.7:443": 200, "192.0.2.7": 200, "localhost": 200, "192.0.2.7:0": 403, "192.0.2.7:80": 403, "192.0.2.8": 403, "localhost:8765": 403,
	} {
		if response := call(t, g, host(name)); response.StatusCode != want {
			t.Errorf("Host %s: status %d, want %d", name, response.StatusCode, want)
		}
	}
	for origin, want := range map[string]int{"https://localhost": 200, "http://localhost": 403, "https://192.0.2.7": 403} {
		if response := call(t, g, host("localhost"), header("Origin", origin)); response.StatusCode != want {
			t.Errorf("Origin %s: status %d, want %d", origin, response.StatusCode, want)
		}
	}
}

func TestCheckListen(t *testing.T) {
	tests := []struct {
		listen       string
		isConfigured bool
		ok           bool
	}{
		{"127.0.0.1:8765", false, true},
		{"127.9.9.9:8765", false, true},
		{"localhost:8765", false, true},
		{"[::1]:0", false, true},
		{"[::ffff:127.0.0.1]:1", false, true},
		{"0.0.0.0:8765", false, false},
		{":8765", false, false},
		{"[::]:8765", false, false},
		{"192.168.1.4:8765", false, false},
		{"box.lan:8765", false, false},
		{"localhost.evil.example:8765", false, false},
		{"0.0.0.0:8765", true, true},
		{"", false, true}, // no address: another fault, or nothing listens
	}
	for _, tt := range tests {
		if err := CheckListen(tt.listen, tt.isConfigured); (err == nil) != tt.ok {
			t.Errorf("CheckListen(%q, %v) = %v", tt.listen, tt.isConfigured, err)
		}
	}
}

func checkSameAsURL(t *testing.T, text string, o origin) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatalf("parseOrigin took %q: %v", text, err)
	}
	name := strings.ToLower(u.Hostname())
	if address, err := netip.ParseAddr(name); err == nil {
		name = address.String()
	}
	port := u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	if u.Scheme != o.scheme || name != o.host || port != o.port || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		t.Errorf("parseOrigin(%q) = %+v, url.Parse %+v", text, o, u)
	}
}
