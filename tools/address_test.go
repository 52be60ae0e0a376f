package tools

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/biocypher/biocage-mcp/session"
)

// Answers link files by address, so the tools for files take such an address
// for the path that it means, and say what they want instead of another one.
func TestPathsMayBeAddresses(t *testing.T) {
	tests := []struct {
		name, session, path string
		wantHandle          string
		wantPath            string
		refused             string
	}{
		{"a path", "", "a/b.csv", "", "a/b.csv", ""},
		{"a path with a colon", "", "12:30/b", "", "12:30/b", ""},
		{"a drive", "", "C:/b", "", "C:/b", ""},
		{"in the workspace", "", "sandbox://sbx_A/a%20b/c.csv", "sbx_A", "a b/c.csv", ""},
		{"absolute", "", "sandbox://sbx_A//tmp/x", "sbx_A", "/tmp/x", ""},
		{"not encoded", "", "sandbox://sbx_A/100%.csv", "sbx_A", "100%.csv", ""},
		{"question mark", "", "sandbox://sbx_A/a?b#c", "sbx_A", "a?b#c", ""},
		{"a folder", "", "sandbox://sbx_A/d/", "sbx_A", "d/.", ""},
		{"the workspace", "", "sandbox://sbx_A/", "sbx_A", ".", ""},
		{"of the session named", "sbx_A", "sandbox://sbx_A/x", "sbx_A", "x", ""},
		{"of another session", "sbx_B", "sandbox://sbx_A/x", "", "", "session sbx_A, but session is sbx_B; leave session out"},
		{"of a session by its name", "work", "sandbox://work/x", "work", "x", ""},
		{"a word that could be a name", "", "sandbox://tmp/x", "", "", `such as "/tmp/x"`},
		{"a short address", "", "sandbox:/mnt/data/x", "", "", `such as "/mnt/data/x"`},
		{"a file's address", "", "file:///work/x", "", "", `such as "/work/x"`},
		{"the web", "", "https://example.org/x.csv", "", "", "path is an address (https:)"},
		{"a store", "", "s3://bucket/x", "", "", "path is an address (s3:)"},
	}
	for _, tt := range tests {
		for tool, rest := range map[string]map[string]any{"file_read": {}, "file_list": {}, "file_write": {"content": "x"}} {
			t.Run(tt.name+"/"+tool, func(t *testing.T) {
				f := &fakeSessions{file: []byte("x"), mime: "text/plain"}
				arguments := map[string]any{"path": tt.path}
				maps.Copy(arguments, rest)
				if tt.session != "" {
					arguments["session"] = tt.session
				}
				answer := newHarness(t, f, Options{}).call(tool, string(encode(t, arguments))).Result.Content[0].Text
				got := f.list.Path + f.write.Path
				if len(f.reads) > 0 {
					got = f.reads[0].Path
				}
				if tt.refused != "" {
					if got != "" || !strings.Contains(answer, tt.refused) {
						t.Errorf("%q was asked for; %s", got, answer)
					}
					return
				}
				if got != tt.wantPath || f.ref.Handle != tt.wantHandle || f.ref.Connection != "conn" {
					t.Errorf("%q of %+v was asked for; %s", got, f.ref, answer)
				}
			})
		}
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Memory that nobody measured is not told as no memory.
func TestMemoryIsToldWhenItIsKnown(t *testing.T) {
	for want, info := range map[string]session.Info{
		"memory none yet,": {},
		"memory unknown,":  {SandboxID: "sb"},
		"memory 4.0 kB,":   {SandboxID: "sb", MemoryBytes: 4000},
	} {
		o := newHarness(t, &fakeSessions{info: info}, Options{}).call("session_info", `{}`)
		if !strings.Contains(o.text(), want) || strings.Contains(o.object(), "memory_bytes") != (info.MemoryBytes > 0) {
			t.Errorf("want %q: %s %s", want, o.text(), o.object())
		}
	}
}
