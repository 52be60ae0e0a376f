package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func TestHistoryIsBounded(t *testing.T) {
	var h history
	ok := RunResult{Success: true}
	h.add("  ", ok)
	h.add("first", ok)
	h.add(strings.Repeat("x", maxHistory+1), ok)
	if diff := cmp.Diff([]string{"first"}, h.cells); diff != "" || h.dropped != 1 {
		t.Errorf("dropped %d: %s", h.dropped, diff)
	}
	for range 10 {
		h.add(strings.Repeat("y", maxHistory/4), ok)
	}
	if h.size > maxHistory || len(h.cells) != 4 || h.dropped != 8 || h.failed != nil {
		t.Errorf("%d cells of %d bytes, dropped %d", len(h.cells), h.size, h.dropped)
	}
	h.add(strings.Repeat("z", 100_000), RunResult{Error: &RunError{Kind: KindException, Traceback: strings.Repeat("t", 100_000)}})
	if len(h.cells) != 4 || len(h.failed.Code) > maxFailure || len(h.failed.Error.Traceback) > maxFailure {
		t.Errorf("%d cells, failure of %d bytes", len(h.cells), len(h.failed.Code))
	}
}

func TestHostNamesAreOnlyWhatMayBeExposed(t *testing.T) {
	dir := t.TempDir()
	root, outside := filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	for _, d := range []string{filepath.Join(root, "sub", ".ssh"), outside} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"root/data.csv", "root/key.pem", "root/.env", "root/sub/in.csv", "root/sub/.ssh/id", "root/hard", "outside/secret.csv"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"away.csv": filepath.Join(outside, "secret.csv"), "within.csv": "data.csv", "up": ".."} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(root, "hard"), filepath.Join(outside, "hard")); err != nil {
		t.Fatal(err)
	}
	m := &Manager{opts: Options{Roots: []HostRoot{{Path: root, Mode: sandbox.ReadOnly}}}}
	for prefix, want := range map[string][]string{
		"":                    {root + "/"},
		root[:len(root)-2]:    {root + "/"},
		root + "/":            {root + "/", root + "/data.csv", root + "/sub/", root + "/within.csv"},
		root + "/d":           {root + "/data.csv"},
		root + "/k":           nil,
		root + "/.e":          nil,
		root + "/sub/":        {root + "/sub/in.csv"},
		root + "/sub/.ssh/":   nil,
		root + "/nothing/":    nil,
		root + "/up/":         nil,
		root + "/../outside/": nil,
		outside + "/":         nil,
		"relative/":           nil,
		root + "/data.csv/":   nil,
		root + "/sub\x00/":    nil,
	} {
		if diff := cmp.Diff(want, m.HostNames(prefix)); diff != "" {
			t.Errorf("%q: %s", prefix, diff)
		}
	}
}
