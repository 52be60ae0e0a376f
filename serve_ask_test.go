package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const announces = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`

// A client that announces what it then refuses: the model reads a sentence that
// helps, and is not let ask for ever.
func TestServeToAClientThatCannotAskAfterAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.csv")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor", "BIOCAGE_EXPOSE_ASK=true", "BIOCAGE_EXPOSE_CLIENT_ROOTS=true", "BIOCAGE_SESSION_WARM=0")
	s.request(announces)
	expose := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"file_expose","arguments":{"host_path":%q}}}`, file)
	refusal := `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unhelpful"}}`
	idOf := func(line string) string {
		_, rest, _ := strings.Cut(line, `"id":`)
		id, _, _ := strings.Cut(rest, ",")
		return id
	}
	const most = 20
	for i := range most {
		line := s.request(expose)
		if !strings.Contains(line, `"method":"roots/list"`) {
			t.Fatalf("call %d: %s", i, line)
		}
		if line = s.request(fmt.Sprintf(refusal, idOf(line))); strings.Contains(line, "elicitation/create") {
			line = s.request(fmt.Sprintf(refusal, idOf(line)))
		}
		if strings.Contains(line, "unhelpful") || !strings.Contains(line, `"isError":true`) {
			t.Fatalf("call %d: %s", i, line)
		}
		if strings.Contains(line, "not asked again") {
			break
		}
		if !strings.Contains(line, "The client could not ask the person") || i == most-1 {
			t.Fatalf("call %d: %s", i, line)
		}
	}
	if err := s.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
}

// What the server itself needs is not shown to a sandbox, even below a root;
// what lies beside it is.
func TestServeKeepsItsOwnFiles(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "etc", "biocage.yaml")
	for name, text := range map[string]string{
		config:                              "server:\n  tokens: [0123456789abcdef0123456789abcdef]\n",
		filepath.Join(dir, "data", "a.csv"): "a,b",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{needEnvironment(t), "BIOCAGE_ENGINE=gvisor", "BIOCAGE_CONFIG=" + config, "BIOCAGE_EXPOSE_ROOTS=" + dir, "BIOCAGE_LOG_AUDIT=" + filepath.Join(dir, "logs.jsonl")}
	s := startServer(t, environ...)
	for path, want := range map[string]string{
		config: "configuration file with its tokens", filepath.Dir(config): "configuration file with its tokens", dir: "which no sandbox may have",
		filepath.Join(dir, "logs.jsonl"): "audit log", filepath.Join(dir, "data"): "is at /data/data",
	} {
		answer := s.request(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"file_expose","arguments":{"host_path":%q}}}`, path))
		if !strings.Contains(answer, want) {
			t.Errorf("%s: %s", path, answer)
		}
	}
	if err := s.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
}
