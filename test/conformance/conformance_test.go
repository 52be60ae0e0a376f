package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/guard"
	"github.com/biocypher/biocage-mcp/internal/serve"
)

// A check is one line of a scenario's checks.json.
type check struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"errorMessage"`
}

// TestConformance runs each set of requirements and compares what failed with
// what is expected to fail, check by check: a check that fails unexpectedly
// and one that has been mended are both faults.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite needs Node.js and half a minute")
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			checks := run(t, revision)
			var failed []string
			passed := 0
			for name, c := range checks {
				switch c.Status {
				case "FAILURE":
					failed = append(failed, name)
					t.Logf("%s: %.300s", name, c.Message)
				case "SUCCESS":
					passed++
				}
			}
			t.Logf("%d checks passed, %d failed", passed, len(failed))
			if passed < 70 {
				t.Errorf("only %d checks passed", passed)
			}
			compare(t, expected(t, revision), failed)
		})
	}
}

// run gives every check by scenario and id.
func run(t *testing.T, revision string) map[string]check {
	t.Helper()
	node, suite := installed(t)
	out := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, suite, "server", "--url", start(t)+"/mcp", "--requirements", revision, "--output-dir", out)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) { // it ends with 1 when a check fails
		t.Fatalf("the suite did not run: %v\n%s", err, &text)
	}
	checks := map[string]check{}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var list []check
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, c := range list {
			name := scenario(path) + " " + c.ID
			if old, ok := checks[name]; !ok || old.Status != "FAILURE" {
				checks[name] = c
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if t.Failed() || len(checks) == 0 {
		t.Logf("the suite said:\n%s", &text)
	}
	return checks
}

// scenario is the name of a directory such as server-ping-2026-01-02T03-04-05-678Z.
func scenario(path string) string {
	name := strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "server-")
	return name[:len(name)-len("-2026-01-02T03-04-05-678Z")]
}

// start serves the fixtures as `biocage serve --transport http` serves its tools.
func start(t *testing.T) string {
	t.Helper()
	s := serve.NewServer(serve.Options{
		Version: "fixtures",
		Tools:   slices.Concat(plainTools(), tellingTools(), askingTools()),
	})
	server.WithElicitation()(s)
	server.WithCompletions()(s)
	addResources(s)
	addPrompts(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	door, err := guard.New(guard.Options{Listen: l.Addr().String(), Addr: l.Addr(), Tokens: []string{"suite:" + token}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	front := serve.HTTP{
		Server: s, Log: log, Principal: guard.Principal,
		Guard: func(next http.Handler) http.Handler { return authorised(door.Wrap(next)) },
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- front.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

const token = "a-token-that-only-these-tests-know"

// authorised adds the token, which the suite cannot be told.
func authorised(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		next.ServeHTTP(w, r)
	})
}

// installed gives Node.js and the suite, which test/interop/setup.sh installs.
func installed(t *testing.T) (node, suite string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "build", "interop", "node", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	node, suite = filepath.Join(dir, ".bin", "node"), filepath.Join(dir, ".bin", "conformance")
	for _, path := range []string{node, suite} {
		if _, err := os.Stat(path); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%v; run test/interop/setup.sh", err)
			}
			t.Skipf("%v; run test/interop/setup.sh", err)
		}
	}
	return node, suite
}

// An expectation is a scenario of which these checks fail, or, when none is
// named, of which any may: at least one does.
type expectation struct {
	Scenario string   `yaml:"scenario"`
	Checks   []string `yaml:"checks"`
	Reason   string   `yaml:"reason"`
}

func expected(t *testing.T, revision string) []expectation {
	t.Helper()
	data, err := os.ReadFile("expected-failures.yml")
	if err != nil {
		t.Fatal(err)
	}
	var sets map[string][]expectation
	if err := yaml.UnmarshalWithOptions(data, &sets, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, e := range sets[revision] {
		if len(strings.Fields(e.Reason)) < 4 {
			t.Errorf("%s: the reason says too little", e.Scenario)
		}
	}
	return sets[revision]
}

// compare finds the checks that fail and should not, and the other way round.
func compare(t *testing.T, expected []expectation, failed []string) {
	t.Helper()
	open := map[string]bool{}
	for _, name := range failed {
		open[name] = true
	}
	for _, e := range expected {
		found := 0
		for _, name := range failed {
			scenario, id, _ := strings.Cut(name, " ")
			if scenario == e.Scenario && (e.Checks == nil || slices.Contains(e.Checks, id)) {
				found++
				delete(open, name)
			}
		}
		if found == 0 || e.Checks != nil && found < len(e.Checks) {
			t.Errorf("%s is expected to fail (%s), and passes: remove it", e.Scenario, e.Reason)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(open)) {
		t.Errorf("fails: %s", name)
	}
}
