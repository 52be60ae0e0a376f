package guard

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestWrongTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, options())
		try := func(token, address string) int {
			return call(t, g, header("Authorization", "Bearer "+token), from(address)).StatusCode
		}
		const here, elsewhere = "192.0.2.1:5000", "192.0.2.2:5000"
		for i := range failureBurst {
			if got := try(fmt.Sprintf("guess-number-%04d", i), here); got != 401 {
				t.Fatalf("guess %d: status %d", i, got)
			}
		}
		steps := []struct {
			name, token, address string
			want                 int
		}{
			{"one guess more", "guess-number-9999", here, 429},
			{"from another port", "guess-number-9999", "192.0.2.1:6000", 429},
			{"a right one that could have been guessed", shortToken, here, 429},
			{"a right one that could not", aliceToken, here, 200},
			{"a wrong one that is long", aliceToken + "x", here, 429},
			{"from elsewhere", "guess-number-9999", elsewhere, 401},
			{"a right one from elsewhere", shortToken, elsewhere, 200},
		}
		for _, s := range steps {
			if got := try(s.token, s.address); got != s.want {
				t.Errorf("%s: status %d, want %d", s.name, got, s.want)
			}
		}
		response := call(t, g, header("Authorization", "Bearer wrong"), from(here))
		if response.Header.Get("Retry-After") != "5" {
			t.Errorf("Retry-After: %q", response.Header.Get("Retry-After"))
		}
		time.Sleep(failureInterval)
		if got := try(shortToken, here); got != 200 {
			t.Errorf("after a wait: status %d", got)
		}
		if got := []int{try("guess-number-9999", here), try("guess-number-9999", here)}; got[0] != 401 || got[1] != 429 {
			t.Errorf("after a wait: %v, want one guess", got)
		}
	})
}

// A request without a token is no guess: clients begin so.
func TestNoTokenIsNoFailure(t *testing.T) {
	g := newGuard(t, options())
	for range 10 * failureBurst {
		if response := call(t, g, header("Authorization")); response.StatusCode != http.StatusUnauthorized {
			t.Fatalf("status %d", response.StatusCode)
		}
	}
	if response := call(t, g, header("Authorization", "Bearer "+shortToken)); response.StatusCode != http.StatusOK {
		t.Errorf("status %d", response.StatusCode)
	}
}

func TestAddressesAreBounded(t *testing.T) {
	f := newFailures()
	now := time.Now()
	for i := range 3 * maxAddresses {
		f.judge(addressOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)), now, false, true)
	}
	if len(f.known) != maxAddresses || f.order.Len() != maxAddresses {
		t.Errorf("%d addresses known, %d listed, want %d", len(f.known), f.order.Len(), maxAddresses)
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct{ remote, want string }{
		{"192.0.2.1:80", "192.0.2.1/32"},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1/32"},
		{"[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:80", "fe80::/64"},
		{"@", ""},
		{"", ""},
	}
	for _, tt := range tests {
		want, _ := netip.ParsePrefix(tt.want)
		if got := addressOf(tt.remote); got != want {
			t.Errorf("addressOf(%q) = %s, want %s", tt.remote, got, want)
		}
	}
}

func FuzzAuthority(f *testing.F) {
	for _, seed := range []string{"localhost:8765", "[::1]:1", "a.b", "127.0.0.1@x", "[::1%x]:1", "", "x:", "x:00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, ok := parseAuthority(text)
		if !ok {
			return
		}
		canonical := a.host
		if address, err := netip.ParseAddr(a.host); err == nil && address.Is6() {
			canonical = "[" + a.host + "]"
		}
		if a.port != "" {
			canonical += ":" + a.port
		}
		if again, ok := parseAuthority(canonical); !ok || again != a {
			t.Errorf("parseAuthority(%q) = %+v, its canonical form %q = %+v, %v", text, a, canonical, again, ok)
		}
	})
}

// Whatever passes as an origin is one that a URL parser reads the same way.
func FuzzOrigin(f *testing.F) {
	for _, seed := range []string{"http://localhost:8765", "null", "http://a@b", "https://[::1]", `http://a\b`, "http://a/b", "HTTP://A:080"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, ok := parseOrigin(text)
		if !ok {
			return
		}
		checkSameAsURL(t, text, o)
	})
}

func FuzzAuthorization(f *testing.F) {
	for _, seed := range []string{"Bearer abc", "bearer  a", "Bearer", "Basic x", "Bearer a b", "Bearer \x00"} {
		f.Add(seed, seed)
	}
	g, err := New(options())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		secret, what := readBearer([]string{one})
		if (what == bearer) != (secret != "") || len(secret) > maxToken {
			t.Errorf("readBearer(%q) = %q, %v", one, secret, what)
		}
		if _, what := readBearer([]string{one, two}); what == bearer {
			t.Errorf("readBearer took one of two headers")
		}
		isRight := secret == aliceToken || secret == shortToken || secret == plainToken
		response := call(t, g, header("Authorization", one))
		if (response.StatusCode == http.StatusOK) != isRight {
			t.Errorf("Authorization %q: status %d", one, response.StatusCode)
		}
	})
}
