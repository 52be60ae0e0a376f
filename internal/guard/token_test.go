package guard

import (
	"bytes"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFaults(t *testing.T) {
	o := options()
	o.Listen = "127.0.0.1:8765"
	o.Tokens = []string{
		"short", "alice:short", "0123456789abcde", "with spaces in it 123", "comma,comma,comma,comma", "a:b:0123456789abcdef",
		":0123456789abcdef", "-x:0123456789abcdef", "token-x:0123456789abcdef", "bob:0123456789abcdef", "0123456789abcdef", "bob:fedcba9876543210",
		strings.Repeat("n", 65) + ":0123456789abcdef",
	}
	o.AllowedOrigins = []string{"*", "null", "http://x/y", "https://user@x", "https://x?y", "https://ok.example.org", "x.example.org", "https://x:99999"}
	o.AllowedHosts = []string{"http://x", "x/y", "", "*", "x:0", "ok.example.org", "[::1", "user@x"}
	o.TokenFile = "relative"
	o.OAuth = OAuth{JWKSURL: "http://keys.example.org", Scopes: []string{"ok", "not ok", `"`}, PrincipalClaim: ""}
	var got []string
	for _, fault := range o.Faults() {
		got = append(got, fault.Key)
		for _, token := range o.Tokens {
			_, secret, _ := strings.Cut(token, ":")
			if len(secret) > 5 && strings.Contains(fault.Message, secret) {
				t.Errorf("the fault of %s tells the token", fault.Key)
			}
		}
	}
	want := strings.Fields(`tokens[0] tokens[1] tokens[2] tokens[3] tokens[4] tokens[5] tokens[6] tokens[7] tokens[8] tokens[10] tokens[12]
		allowed_origins[0] allowed_origins[1] allowed_origins[2] allowed_origins[3] allowed_origins[4] allowed_origins[6] allowed_origins[7]
		allowed_hosts[0] allowed_hosts[1] allowed_hosts[2] allowed_hosts[3] allowed_hosts[4] allowed_hosts[6] allowed_hosts[7]
		token_file oauth.issuer oauth.jwks_url oauth.audience oauth.principal_claim oauth.scopes[1] oauth.scopes[2]`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "server.tokens[0]: must have at least 16 characters") {
		t.Errorf("New: %v", err)
	}
}

func TestURLs(t *testing.T) {
	tests := []struct {
		url string
		ok  bool
	}{
		{"https://issuer.example.org", true},
		{"https://issuer.example.org/realms/x/", true},
		{"http://127.0.0.1:9000/x", true},
		{"http://localhost:9000", true},
		{"http://[::1]:9000", true},
		{"", false},
		{"issuer.example.org", false},
		{"http://issuer.example.org", false},
		{"http://localhost.evil.example", false},
		{"http://127.0.0.1@evil.example", false},
		{"https://user:secret@issuer.example.org", false},
		{"https://issuer.example.org#x", false},
		{"https://issuer.example.org#", false},
		{"https://issuer.example.org?x=y", false},
		{"https://issuer.example.org?", false},
		{"https://", false},
		{"https:///x", false},
		{"file:///etc/passwd", false},
		{"https://issuer.example.org/a b", false},
		{"https://issuer.example.org\n", false},
	}
	for _, tt := range tests {
		if err := checkURL(tt.url, false); (err == nil) != tt.ok {
			t.Errorf("checkURL(%q) = %v", tt.url, err)
		}
	}
}

func TestTokenIsMadeAndToldOnce(t *testing.T) {
	var told, log bytes.Buffer
	o := options()
	o.Tokens, o.Tell, o.Log = nil, &told, slog.New(slog.NewTextHandler(&log, nil))
	g := newGuard(t, o)
	match := regexp.MustCompile(`claude mcp add --transport http biocage http://127\.0\.0\.1:8765/mcp --header "Authorization: Bearer ([A-Za-z0-9_-]+)"\n`).FindStringSubmatch(told.String())
	if match == nil {
		t.Fatalf("told: %s", told.String())
	}
	secret := match[1]
	if random, err := base64.RawURLEncoding.DecodeString(secret); err != nil || len(random) != 32 {
		t.Errorf("the token %q is not 32 bytes: %v", secret, err)
	}
	if response := call(t, g, header("Authorization", "Bearer "+secret)); response.StatusCode != http.StatusOK {
		t.Errorf("status %d with the token that was told", response.StatusCode)
	}
	if response := call(t, g, header("Authorization")); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d without a token", response.StatusCode)
	}
	if strings.Contains(log.String(), secret) {
		t.Error("the log holds the token")
	}
	told.Reset()
	newGuard(t, o)
	if strings.Contains(told.String(), secret) {
		t.Error("two starts made the same token")
	}
	told.Reset()
	newGuard(t, options())
	if told.Len() > 0 {
		t.Errorf("tokens are configured, yet told: %s", told.String())
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestATokenThatCannotBeToldIsAnError(t *testing.T) {
	o := options()
	o.Tokens, o.Tell = nil, brokenWriter{}
	if _, err := New(o); err == nil {
		t.Error("New made a token that nobody knows")
	}
}

func TestTokenFile(t *testing.T) {
	var told bytes.Buffer
	o := options()
	o.Tokens, o.Tell = nil, &told
	o.TokenFile = filepath.Join(t.TempDir(), "token")
	newGuard(t, o)
	info, err := os.Stat(o.TokenFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file: %v, %v", info, err)
	}
	data, err := os.ReadFile(o.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(data))
	if !strings.Contains(told.String(), secret) {
		t.Errorf("told: %s", told.String())
	}
	told.Reset()
	again := newGuard(t, o)
	if told.Len() > 0 {
		t.Errorf("the token was told at the second start, too: %s", told.String())
	}
	if response := call(t, again, header("Authorization", "Bearer "+secret)); response.StatusCode != http.StatusOK {
		t.Errorf("status %d at the second start", response.StatusCode)
	}
}

func TestTokenFileRefused(t *testing.T) {
	tests := []struct {
		name, content string
		mode          os.FileMode
		change        func(*Options)
		want          string
	}{
		{"readable by all", aliceToken, 0o644, nil, "can be read by others (mode 0644); run chmod 600"},
		{"readable by the group", aliceToken, 0o640, nil, "can be read by others"},
		{"empty", "", 0o600, nil, "must have at least 16 characters"},
		{"short", "x", 0o600, nil, "must have at least 16 characters"},
		{"two lines", aliceToken + "\n" + plainToken, 0o600, nil, "must have at least 16 characters"},
		{"endless", strings.Repeat("a", 1<<20), 0o600, nil, "must have at least 16 characters"},
		{"somebody else's", "bob:" + aliceToken, 0o600, func(o *Options) { o.Tokens = []string{"alice:" + aliceToken} }, "is the one of alice in server.tokens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			o.Tokens = nil
			o.TokenFile = filepath.Join(t.TempDir(), "token")
			if tt.change != nil {
				tt.change(&o)
			}
			if err := os.WriteFile(o.TokenFile, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(o.TokenFile, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := New(o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), aliceToken) {
				t.Errorf("the error tells the token: %v", err)
			}
		})
	}
	o := options()
	o.TokenFile = t.TempDir()
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a directory: %v", err)
	}
	o.TokenFile, o.Listen = filepath.Join(t.TempDir(), "token"), "0.0.0.0:8765"
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("none is made for others: %v", err)
	}
}

func TestNamedTokenFile(t *testing.T) {
	o := options()
	o.TokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(o.TokenFile, []byte("carol:carols-token-from-a-file\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, o)
	for secret, want := range map[string]string{"carols-token-from-a-file": "principal=carol", aliceToken: "principal=alice"} {
		if got := body(t, call(t, g, header("Authorization", "Bearer "+secret))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		listen string
		tls    bool
		want   int
	}{{"127.0.0.1:1", false, 0}, {"0.0.0.0:1", true, 1}, {"0.0.0.0:1", false, 2}}
	for _, tt := range tests {
		var log bytes.Buffer
		o := options()
		o.Listen, o.TLS, o.Log = tt.listen, tt.tls, slog.New(slog.NewTextHandler(&log, nil))
		newGuard(t, o)
		if got := strings.Count(log.String(), "level=WARN"); got != tt.want {
			t.Errorf("%s, TLS %v: %d warnings, want %d:\n%s", tt.listen, tt.tls, got, tt.want, log.String())
		}
	}
	o := options()
	o.Listen, o.Tokens = "0.0.0.0:1", nil
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "can be reached from other machines") {
		t.Errorf("New: %v", err)
	}
}
