package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/biocypher/biocage-mcp/internal/config"
)

// pages are the documents that people follow.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "CONTRIBUTING.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, relative)
		}
	}
	return list
}

func TestMakeCommandsInDocumentsExist(t *testing.T) {
	targets := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[match[1]] = true
	}
	command := regexp.MustCompile("(?m)(?:^\\s*|`)make ([a-z-]+)")
	for _, page := range pages(t) {
		for _, match := range command.FindAllStringSubmatch(read(t, page), -1) {
			if !targets[match[1]] {
				t.Errorf("%s names make %s, which the Makefile does not have", page, match[1])
			}
		}
	}
}

func TestReadmeIsShort(t *testing.T) {
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 250 {
		t.Errorf("README.md has %d lines, the limit is 250; move what is too much into docs/", lines)
	}
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := filepath.Join(root, filepath.Dir(page), match[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], errorReason(err))
			}
		}
	}
}

func errorReason(err error) string {
	if os.IsNotExist(err) {
		return fs.ErrNotExist.Error()
	}
	return err.Error()
}

func TestExampleConfigurationEqualsTheDefaults(t *testing.T) {
	got, err := config.Load(config.Source{Name: "config.example.yaml", Data: []byte(read(t, "config.example.yaml"))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("config.example.yaml (-default +example):\n%s", diff)
	}
}

// What a page shows as configuration must load.
func TestConfigurationInDocumentsLoads(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, page := range pages(t) {
		for _, match := range block.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := config.Load(config.Source{Name: page, Data: []byte(match[1])}); err != nil {
				t.Errorf("%v\nin\n%s", err, strings.TrimSpace(match[1]))
			}
		}
	}
}
