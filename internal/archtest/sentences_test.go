package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
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

// The other way round: what doctor proposes, and what a tool says when no
// sandbox can serve it, has an entry.
func TestPrintedSentencesAreExplained(t *testing.T) {
	headings := regexp.MustCompile("(?m)^### `(.+)`$").FindAllStringSubmatch(read(t, "docs/troubleshooting.md"), -1)
	found := 0
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, sentence := range sentencesOf(n) {
				found++
				explained := slices.ContainsFunc(headings, func(h []string) bool {
					return isPrinted([]string{sentence}, h[1]) || isPrinted([]string{h[1]}, sentence)
				})
				if !explained {
					t.Errorf("%s: docs/troubleshooting.md does not explain %q", s.path, sentence)
				}
			}
			return true
		})
	}
	if found < 20 {
		t.Errorf("only %d sentences were found", found)
	}
}

// sentencesOf gives what functions called remedy (or so) return, and what refusals and
// errors of the sandbox say.
func sentencesOf(n ast.Node) []string {
	var found []string
	switch n := n.(type) {
	case *ast.FuncDecl:
		if strings.HasSuffix(strings.ToLower(n.Name.Name), "remedy") {
			ast.Inspect(n, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
					found = append(found, sentence(r.Results[0]))
				}
				return true
			})
		}
	case *ast.CompositeLit:
		kind := ""
		switch t := n.Type.(type) {
		case *ast.Ident:
			kind = t.Name
		case *ast.SelectorExpr:
			kind = t.Sel.Name
		}
		if kind != "refusal" && kind != "SandboxError" {
			break
		}
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "message") {
					found = append(found, sentence(pair.Value))
				}
			}
		}
	}
	return slices.DeleteFunc(found, func(text string) bool { return strings.Trim(text, "… .") == "" })
}

// sentence is the text of an expression, with "…" for what varies.
func sentence(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return regexp.MustCompile(`%[a-z]`).ReplaceAllString(text, "…")
		}
	case *ast.BinaryExpr:
		return sentence(e.X) + sentence(e.Y)
	case *ast.CallExpr: // fmt.Sprintf
		if len(e.Args) > 0 {
			return sentence(e.Args[0])
		}
	}
	return "…"
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
