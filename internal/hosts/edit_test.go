package hosts

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func biocage() Server {
	return Server{Name: "biocage", Command: "/usr/local/bin/biocage", Args: []string{"serve"}}
}

// Each file below testdata/set is a host's configuration before and after. The
// first part of its name is the host.
func TestSetGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/set/*.before")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			host, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := host.Set(before, biocage())
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".before") + ".after"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, err := host.Set(got, biocage())
			if err != nil || string(again) != string(got) {
				t.Errorf("the second time it is changed again (%v):\n%s", err, cmp.Diff(string(got), string(again)))
			}
			without, err := host.Remove(got, "biocage")
			if err != nil || strings.Contains(string(without), "/usr/local/bin/biocage") {
				t.Errorf("not removed (%v):\n%s", err, without)
			}
		})
	}
}

// Added and removed again, a file is what it was.
func TestRemoveUndoesSet(t *testing.T) {
	for host, before := range map[string]string{
		"cursor": "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"} // kept\n  }\n}\n",
		"vscode": "{\n\t\"servers\": {\n\t\t\"a\": {\"url\": \"http://x\"},\n\t},\n\t// end\n}\n",
		"codex":  "model = \"o\" # kept\n\n[mcp_servers.a]\ncommand = 'x'\n",
	} {
		h, err := Find(host)
		if err != nil {
			t.Fatal(err)
		}
		set, err := h.Set([]byte(before), biocage())
		if err != nil {
			t.Fatal(err)
		}
		after, err := h.Remove(set, "biocage")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimSpace(before), strings.TrimSpace(string(after))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", host, diff)
		}
		same, err := h.Remove(after, "biocage")
		if err != nil || string(same) != string(after) {
			t.Errorf("%s: removing nothing changes the file: %v", host, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		host, text string
		kind       error
		want       string
	}{
		{"cursor", "{\n  \"mcpServers\": {,}\n}", ErrMalformed, "line 2, column 18"},
		{"cursor", "{\"mcpServers\": {}", ErrMalformed, "unexpected EOF"},
		{"cursor", "[]", ErrMalformed, "holds no object"},
		{"cursor", `{"mcpServers": null}`, ErrConflict, "is no object"},
		{"cursor", `{"mcpServers": {}, "mcpServers": {}}`, ErrMalformed, "is there twice"},
		{"cursor", `{"mcpServers": {"biocage": 1}}`, ErrConflict, "is no object"},
		{"cursor", `{"mcpServers": {"biocage": {}, "bioc\u0061ge": {}}}`, ErrMalformed, "is there twice"},
		{"cursor", `{"mcpServers": {"biocage": {"url": "http://x/mcp"}}}`, ErrConflict, "a remote one; choose another --name"},
		{"cursor", `{"mcpServers": {"biocage": {"serverUrl": "http://x/mcp"}}}`, ErrConflict, "a remote one"},
		{"gemini", `{"mcpServers": {"biocage": {"httpUrl": "http://x/mcp", "timeout": 5}}}`, ErrConflict, "a remote one; choose another --name, or remove it first"},
		{"vscode", `{"servers": {"biocage": {"type": "http"}}}`, ErrConflict, "a remote one"},
		{"vscode", `{"servers": {"biocage": {"type": "sse", "command": "x"}}}`, ErrConflict, "a remote one"},
		{"claude-code", `{"mcpServers": {"biocage": {"transport": "http"}}}`, ErrConflict, "a remote one"},
		{"gemini", `{"mcpServers": {"biocage": {"httpUrl": "a", "httpUrl": "b"}}}`, ErrMalformed, "is there twice"},
		{"vscode", `{"servers": {"biocage": {"command": "x", "args": ["a" /* why */]}}}`, ErrConflict, "a comment inside"},
		{"cursor", "\n" + strings.Repeat("[", 100_000), ErrMalformed, "line 2 nests more than 500 levels"},
		{"codex", "a = 1\nb = \n", ErrMalformed, "line 2"},
		{"codex", "[mcp_servers.biocage]\nurl = 'http://x'\n", ErrConflict, "a remote one"},
		{"codex", "[mcp_servers.biocage]\ntype = 'http'\n", ErrConflict, "a remote one"},
		{"codex", "[mcp_servers]\nbiocage = {command = 'x'}\n", ErrConflict, "no table [mcp_servers.biocage] of its own"},
		{"codex", "mcp_servers = {a = {command = 'x'}}\n", ErrConflict, "mcp_servers is one value"},
		{"codex", "mcp_servers.a.command = 'x'\n", ErrConflict, "mcp_servers is one value"},
		{"codex", "[mcp_servers.biocage]\ncommand = 'x'\nargs = [\n  'a', # why\n]\n", ErrConflict, "a comment inside"},
	}
	for _, tt := range tests {
		h, err := Find(tt.host)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Set([]byte(tt.text), biocage())
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60s: %v, want %q\n%s", tt.text, err, tt.want, got)
		}
	}
	for _, s := range []Server{{Name: "a b", Command: "/x"}, {Name: "a", Command: "x"}, {Name: strings.Repeat("a", 65), Command: "/x"}} {
		if _, err := All()[0].Set(nil, s); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}

func add(text string) func([]byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) { return append(old, text...), nil }
}

func TestEditFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "er", "mcp.json")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	res, err := Edit(Target{Path: path, Now: now, DryRun: true}, add("a"))
	if err != nil || !res.Changed {
		t.Fatalf("%+v, %v", res, err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the dry run has made a folder")
	}
	res, err = Edit(Target{Path: path, Now: now}, add("a"))
	if err != nil || !res.Changed || res.Backup != "" {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if res, err = Edit(Target{Path: path, Now: now.Add(time.Duration(i) * time.Second)}, add("b")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "abbbbbbbb" {
		t.Errorf("%q, %v", got, err)
	}
	if kept, err := os.ReadFile(res.Backup); err != nil || string(kept) != "abbbbbbb" {
		t.Errorf("the backup holds %q, %v", kept, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1+maxBackups {
		t.Errorf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if res, err := Edit(Target{Path: path, Now: now}, add("")); err != nil || res.Changed || res.Backup != "" {
		t.Errorf("without a change: %+v, %v", res, err)
	}
}

func TestEditLinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	real := filepath.Join(elsewhere, "real.json")
	if err := os.WriteFile(real, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "mcp.json")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(Target{Path: link, Within: dir}, add(" ")); !errors.Is(err, ErrConflict) {
		t.Errorf("a link out of the project: %v", err)
	}
	if _, err := Edit(Target{Path: link}, add(" ")); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if got, err := os.ReadFile(real); err != nil || string(got) != "{} " {
		t.Errorf("%q, %v", got, err)
	}
	nothing := filepath.Join(dir, "nothing.json")
	if err := os.Symlink("missing", nothing); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(Target{Path: nothing}, add(" ")); !errors.Is(err, ErrConflict) {
		t.Errorf("a link to nothing: %v", err)
	}
	if _, err := Edit(Target{Path: dir}, add(" ")); !errors.Is(err, ErrMalformed) {
		t.Errorf("a folder: %v", err)
	}
}

func TestEditSeesOthersChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Edit(Target{Path: path}, func([]byte) ([]byte, error) {
		return []byte("ours"), os.WriteFile(path, []byte("theirs"), 0o600)
	})
	if !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "theirs" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFiles(t *testing.T) {
	none := func(string) string { return "" }
	set := func(pairs map[string]string) func(string) string {
		return func(name string) string { return pairs[name] }
	}
	linux := Place{OS: "linux", Home: "/home/u", Project: "/p", Getenv: none}
	mac := Place{OS: "darwin", Home: "/Users/u", Project: "/p", Getenv: none}
	windows := Place{OS: "windows", Home: `C:\Users\u`, Project: `D:\p`, Getenv: none}
	tests := []struct {
		host  string
		place Place
		scope Scope
		want  string
	}{
		{"claude-desktop", linux, User, "/home/u/.config/Claude/claude_desktop_config.json"},
		{"claude-desktop", mac, User, "/Users/u/Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude-desktop", windows, User, `C:\Users\u\AppData\Roaming\Claude\claude_desktop_config.json`},
		{"claude-desktop", linux, Project, ""},
		{"claude-code", linux, User, "/home/u/.claude.json"},
		{"claude-code", windows, User, `C:\Users\u\.claude.json`},
		{"claude-code", linux, Project, "/p/.mcp.json"},
		{"vscode", linux, User, "/home/u/.config/Code/User/mcp.json"},
		{"vscode", mac, User, "/Users/u/Library/Application Support/Code/User/mcp.json"},
		{"vscode", windows, User, `C:\Users\u\AppData\Roaming\Code\User\mcp.json`},
		{"vscode", windows, Project, `D:\p\.vscode\mcp.json`},
		{"cursor", mac, User, "/Users/u/.cursor/mcp.json"},
		{"cursor", linux, Project, "/p/.cursor/mcp.json"},
		{"codex", linux, User, "/home/u/.codex/config.toml"},
		{"codex", windows, User, `C:\Users\u\.codex\config.toml`},
		{"codex", linux, Project, "/p/.codex/config.toml"},
		{"gemini", linux, User, "/home/u/.gemini/settings.json"},
		{"gemini", linux, Project, "/p/.gemini/settings.json"},
		{"gemini", linux, "team", ""},
		{"gemini", Place{OS: "linux", Getenv: none}, User, ""},
		{"vscode", Place{OS: "linux", Home: "/h", Getenv: set(map[string]string{"XDG_CONFIG_HOME": "/x"})}, User, "/x/Code/User/mcp.json"},
		{"vscode", Place{OS: "windows", Home: `C:\u`, Getenv: set(map[string]string{"APPDATA": `E:\r\`})}, User, `E:\r\Code\User\mcp.json`},
		{"codex", Place{OS: "linux", Home: "/h", Getenv: set(map[string]string{"CODEX_HOME": "/c"})}, User, "/c/config.toml"},
		{"claude-code", Place{OS: "linux", Home: "/h", Getenv: set(map[string]string{"CLAUDE_CONFIG_DIR": "/c"})}, User, "/c/.claude.json"},
	}
	for _, tt := range tests {
		h, err := Find(tt.host)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.File(tt.place, tt.scope)
		if got != tt.want || (err != nil) != (tt.want == "") || err != nil && !errors.Is(err, ErrUnknown) {
			t.Errorf("%s, %s, %s: %q, %v, want %q", tt.host, tt.place.OS, tt.scope, got, err, tt.want)
		}
	}
	if _, err := Find("curser"); err == nil || !strings.Contains(err.Error(), "did you mean cursor?") {
		t.Error(err)
	}
}

// What Set makes of a new file is the snippet.
func TestSnippetIsANewFile(t *testing.T) {
	for _, h := range All() {
		got, err := h.Set(nil, biocage())
		if err != nil || string(got) != h.Snippet(biocage()) {
			t.Errorf("%s: %v\n%s", h.Name, err, got)
		}
	}
}
