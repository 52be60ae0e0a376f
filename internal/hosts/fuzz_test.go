package hosts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Whatever a file holds: it is refused, or the server is in it and nothing else
// differs (which Set checks itself), a second Set changes nothing, and Remove
// takes the server out.
func fuzzSet(f *testing.F, pattern string, hosts ...string) {
	f.Helper()
	seeds, err := filepath.Glob(pattern)
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		text, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range hosts {
			host, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			made, err := host.Set(text, biocage())
			if err != nil {
				if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrConflict) {
					t.Errorf("an error of no kind: %v", err)
				}
				continue
			}
			if again, err := host.Set(made, biocage()); err != nil || string(again) != string(made) {
				t.Errorf("%q becomes %q, then %q (%v)", text, made, again, err)
			}
			if _, err := host.Remove(made, "biocage"); err != nil {
				t.Errorf("%q: %v", made, err)
			}
		}
	})
}

func FuzzSetJSON(f *testing.F) {
	f.Add([]byte(`{"servers":{"biocage":{"type":"stdio"}}}`))
	f.Add([]byte(`{"mcpServers":{"biocage":{"httpUrl":null}}}`))
	fuzzSet(f, "testdata/set/[cvg]*.before", "vscode", "cursor")
}

func FuzzSetTOML(f *testing.F) {
	for _, text := range []string{
		"[mcp_servers.biocage]",                      // without an end of line
		"\ufeff[mcp_servers.biocage]\ncommand='x'\n", // behind a byte order mark
		"[ mcp_servers . \"biocage\" ]\r\nargs=[]\r\n",
		"[[mcp_servers.biocage]]\n",
		"[mcp_servers]\n[mcp_servers.biocage.env]\nA='b'\n",
		"[mcp_servers.biocage]\ncommand.x=1\n",
		"a=\"\"\"\n[mcp_servers.biocage]\n\"\"\"\n",
		"#",
	} {
		f.Add([]byte(text))
	}
	fuzzSet(f, "testdata/set/codex*.before", "codex")
}
