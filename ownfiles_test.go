package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biocypher/biocage-mcp/session"
)

// What a sandbox must not have is known by where it was at the start; a
// configuration may be read when it holds no tokens.
func TestOwnFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"plain.yaml":  "log:\n  audit: " + filepath.Join(dir, "audit.jsonl") + "\n",
		"tokens.yaml": "server:\n  tokens: [0123456789abcdef0123456789abcdef]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		file     string
		environ  []string
		readable bool
		remedy   string
	}{
		{"plain.yaml", nil, true, "move"},
		{"plain.yaml", []string{"BIOCAGE_SERVER_TOKENS=0123456789abcdef0123456789abcdef"}, true, "move"},
		{"tokens.yaml", nil, false, "BIOCAGE_SERVER_TOKENS"},
		{"tokens.yaml", []string{"BIOCAGE_SERVER_TOKENS=another-0123456789abcdef01234567"}, false, "BIOCAGE_SERVER_TOKENS"},
	} {
		f := newFlags("serve", "", "")
		p := process{stderr: io.Discard, environ: append(tt.environ, "BIOCAGE_CONFIG="+tt.file, "BIOCAGE_DATA_DIR="+dir)}
		cfg, err := f.load(p)
		if err != nil {
			t.Fatal(err)
		}
		var got session.OwnFile
		own := host{p: p, cfg: cfg, file: f.file}.ownFiles()
		for _, file := range own {
			if file.Path == filepath.Join(dir, tt.file) {
				got = file
			}
		}
		if got.Path == "" || got.Readable != tt.readable || !strings.Contains(got.Remedy, tt.remedy) {
			t.Errorf("%s with %v: %+v", tt.file, tt.environ, own)
		}
		if audit := own[1].Path; tt.file == "plain.yaml" && audit != filepath.Join(dir, "audit.jsonl") {
			t.Errorf("the audit log is %q", audit)
		}
	}
}
