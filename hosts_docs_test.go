package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/internal/hosts"
)

// What a page gives to paste for a host is what `biocage install --print`
// gives, but for line ends and indentation.
func TestEntriesInDocumentsAreWhatInstallPrints(t *testing.T) {
	server := hosts.Server{Name: "biocage", Command: "/usr/local/bin/biocage", Args: []string{"serve"}}
	// The kinds of file; Claude Code writes "stdio" and needs it no more than
	// Claude Desktop, whose entry the pages give for both.
	snippets := map[string][]string{}
	for _, h := range hosts.All() {
		text := squeezed(h.Snippet(server))
		if h.Name != "claude-code" {
			snippets[text] = append(snippets[text], h.Name)
		}
	}
	block := regexp.MustCompile("(?s)```(?:json|toml)\n(.*?)```")
	for page, want := range map[string][]string{
		"README.md":     {"claude-desktop", "vscode", "cursor"},
		"docs/hosts.md": {"claude-desktop", "vscode", "codex"},
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, match := range block.FindAllSubmatch(text, -1) {
			names := snippets[squeezed(string(match[1]))]
			if names == nil {
				t.Errorf("%s: no host gets\n%s", page, match[1])
			}
			found = append(found, names...)
		}
		for _, name := range want {
			if !slices.Contains(found, name) {
				t.Errorf("%s does not show the entry for %s", page, name)
			}
		}
	}
	if diff := cmp.Diff(`a=["b c"]`, squeezed("a = [ \"b c\"\n]\n")); diff != "" {
		t.Error(diff)
	}
}

// squeezed drops the white space outside of strings.
func squeezed(text string) string {
	parts := strings.Split(text, `"`)
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.Join(strings.Fields(parts[i]), "")
	}
	return strings.Join(parts, `"`)
}
