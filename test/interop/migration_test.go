package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The program that docs/migration.md shows works as it stands there.
func TestMigrationProgram(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "migration.md"))
	if err != nil {
		t.Fatal(err)
	}
	var program string
	for _, part := range strings.Split(string(page), "```python\n")[1:] {
		if code, _, _ := strings.Cut(part, "```"); strings.Contains(code, "ClientSession") {
			program = code
		}
	}
	if program == "" {
		t.Fatal("docs/migration.md shows no program that speaks MCP")
	}
	python := tool(t, "mcp1", "bin", "python")
	onEachEngine(t, func(t *testing.T, lab lab) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		// The SDK passes on few variables; the page's reader has biocage on the path.
		dir := t.TempDir()
		start := "#!/bin/sh\n"
		for name, value := range serverEnv() {
			start += "export " + name + "='" + value + "'\n"
		}
		start += "exec '" + lab.binary + "' --engine " + lab.engine + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, "biocage"), []byte(start), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, python, "-")
		cmd.Stdin = strings.NewReader(program)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		var errs strings.Builder
		cmd.Stderr = &errs
		if out, err := cmd.Output(); err != nil || string(out) != "42\n\n" {
			t.Errorf("%v: %q\n%s", err, out, &errs)
		}
	})
}
