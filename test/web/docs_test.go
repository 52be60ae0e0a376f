package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The commands by hand of docs/http.md do what they are said to do.
func TestWebDocumentedCommands(t *testing.T) {
	t.Parallel() // most is waiting
	needEngine(t)
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v; install it, as scripts/bootstrap-engines.sh --test does", err)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)By hand.*?```sh\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/http.md has no commands by hand")
	}
	s := start(t, nil)
	script := strings.ReplaceAll(string(block[1]), "127.0.0.1:8765", s.address)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "TOKEN="+adaToken)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "42") || strings.Contains(string(out), `"error":{`) {
		t.Errorf("the commands ended with %v:\n%s", err, out)
	}
	s.until("biocage_protocol_sessions", 0)
}
