package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every sentence that troubleshooting.md explains is one that the program
// prints: its parts between the "…" come, in order, in the texts of one file.
func TestExplainedSentencesAreInTheSource(t *testing.T) {
	texts := printedTexts(t)
	heading := regexp.MustCompile("(?m)^### `(.+)`$")
	found := heading.FindAllStringSubmatch(read(t, "docs/troubleshooting.md"), -1)
	if len(found) < 10 {
		t.Errorf("only %d sentences were found", len(found))
	}
	for _, match := range found {
		if !isPrinted(texts, match[1]) {
			t.Errorf("docs/troubleshooting.md explains %q, which nothing prints", match[1])
		}
	}
}

func isPrinted(texts []string, sentence string) bool {
	for _, text := range texts {
		rest, ok := text, true
		for part := range strings.SplitSeq(sentence, "…") {
			part = strings.TrimSpace(part)
			if _, rest, ok = strings.Cut(rest, part); !ok {
				break
			}
		}
		if ok {
			return true
		}
	}
	return false
}

// printedTexts gives the string literals of each Go file, and the agent's
// modules with texts over several lines joined.
func printedTexts(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, s := range sources(t) {
		var text strings.Builder
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				value, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				text.WriteString(value)
			}
			return true
		})
		all = append(all, text.String())
	}
	joint := regexp.MustCompile(`"\n\s*f?"`)
	walk(t, ".py", func(path string) { all = append(all, joint.ReplaceAllString(read(t, path), "")) })
	return all
}

func TestIsPrinted(t *testing.T) {
	texts := []string{"one %s two", "the file %q is refused; use mode ro."}
	for sentence, want := range map[string]bool{
		"… is refused; use mode ro.":          true,
		"the file … is refused":               true,
		"is refused; … the file":              false,
		"one … is refused":                    false, // of two files
		"… is refused; use mode ro, or else.": false,
	} {
		if got := isPrinted(texts, sentence); got != want {
			t.Errorf("isPrinted(%q) = %v", sentence, got)
		}
	}
}
