package pyagent

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	first, err := Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Install(dir)
	if err != nil || second != first {
		t.Errorf("a second install: %q, %v; want %q again", second, err, first)
	}
	installed, err := os.ReadFile(filepath.Join(first, "biocage_agent_main.py"))
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := fs.ReadFile(source, "biocage_agent_main.py")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(embedded), string(installed)); diff != "" {
		t.Errorf("installed file differs (-embedded +installed):\n%s", diff)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	st, err := os.Stat(filepath.Join(first, "biocage_agent"))
	if err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("the sandbox's user cannot enter the folder: %v, %v", st.Mode(), err)
	}
}
