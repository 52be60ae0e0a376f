package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Files of the server are exposed in no way: not alone, not in a folder, not
// beneath a configured root or an announced one, not by asking.
func TestOwnFilesAreNeverExposed(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(top, name) }
	for _, f := range []string{"plain/biocage.yaml", "plain/a.csv", "secret/etc/biocage.yaml", "secret/data/a.csv", "logs/audit.jsonl", "logs/a.csv", "state/handle", "state/sub/a.csv", "linked/a.csv"} {
		if err := os.MkdirAll(filepath.Dir(at(f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(f), []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"named.yaml": "secret/etc/biocage.yaml", "linked/in.yaml": "../secret/etc/biocage.yaml", "secret/data/again.yaml": "../etc/biocage.yaml"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	own := []OwnFile{
		{},
		{Path: at("plain/biocage.yaml"), What: "a plain file", Readable: true},
		{Path: at("named.yaml"), What: "a file with tokens", Remedy: "move it"},
		{Path: at("logs/audit.jsonl"), What: "the audit log"},
		{Path: at("gone/later.jsonl"), What: "a file to come"},
	}
	if err := os.Mkdir(at("gone"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		mode sandbox.Mode
		want string // in the refusal; "": opened
	}{
		{path: "plain"},
		{path: "plain/biocage.yaml"},
		{path: "plain", mode: sandbox.ReadWrite, want: "a plain file"},
		{path: "plain/biocage.yaml", mode: sandbox.ReadWrite, want: "a plain file"},
		{path: "plain/a.csv", mode: sandbox.ReadWrite},
		{path: "secret", want: "a file with tokens, which no sandbox may have; expose only the files or folders that are needed, or ask the person who runs this server to move it."},
		{path: "secret/etc", want: "a file with tokens"},
		{path: "secret/etc/biocage.yaml", want: "a file with tokens"},
		{path: "secret/data/again.yaml", want: "a file with tokens"},
		{path: "secret/data"},
		{path: "secret/data/a.csv"},
		{path: "named.yaml", want: "a file with tokens"},
		{path: "logs", want: "the audit log"},
		{path: "logs/audit.jsonl", want: "the audit log"},
		{path: "logs/a.csv"},
		{path: "linked"}, // the sandbox cannot follow a link out of it
		{path: "gone", want: "a file to come"},
		{path: "state", want: "files of this server"},
		{path: "state/handle", want: "files of this server"},
		{path: "state/sub", want: "files of this server"},
		{path: "", want: "no sandbox may have"},
	}
	for _, tt := range tests {
		ways := map[string]func(m *Manager) (*hostFile, error){
			"a configured root": func(m *Manager) (*hostFile, error) {
				m.opts.Roots = []HostRoot{{Path: top, Mode: sandbox.ReadWrite}}
				h, _, _, err := m.openFor(Ref{Connection: "c"}, ExposeRequest{HostPath: at(tt.path), Mode: tt.mode})
				return h, err
			},
			"again": func(m *Manager) (*hostFile, error) {
				m.opts.Roots = []HostRoot{{Path: top, Mode: sandbox.ReadWrite}}
				return (&session{m: m}).reopen(Base{}, exposure{Exposure: Exposure{HostPath: at(tt.path)}, mode: tt.mode})
			},
		}
		if tt.mode == sandbox.ReadOnly {
			ways["asking"] = func(m *Manager) (*hostFile, error) {
				m.opts.Ask = true
				real, err := filepath.EvalSymlinks(at(tt.path))
				if err != nil {
					return nil, err
				}
				h, _, _, err := m.openFor(Ref{Connection: "c"}, ExposeRequest{HostPath: at(tt.path), Allowed: &Allowance{Path: real}})
				return h, err
			}
			ways["an announced root"] = func(m *Manager) (*hostFile, error) {
				m.opts.Private = nil // of which nothing can be announced
				if strings.HasPrefix(tt.path, "state") {
					m.opts.Own = append(m.opts.Own, OwnFile{Path: at("state/handle"), What: "files of this server"}, OwnFile{Path: at("state/sub/a.csv"), What: "files of this server"})
				}
				h, _, _, err := m.openFor(Ref{Connection: "c"}, ExposeRequest{HostPath: at(tt.path), Roots: []string{top}})
				return h, err
			}
		}
		for way, open := range ways {
			m := &Manager{opts: Options{Own: own, Private: []string{at("state")}}, sessions: map[string]*session{}, places: map[place]*session{}}
			h, err := open(m)
			if err == nil {
				h.file.Close()
			}
			asked := way == "asking" && err != nil && strings.Contains(err.Error(), "files of this server") // checkPlace says it its way
			if (err == nil) != (tt.want == "") || err != nil && !asked && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q (%s) by %s: %v", tt.path, tt.mode, way, err)
			}
		}
	}
}
