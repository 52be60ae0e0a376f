package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every biocage command line in the documents parses: known command, known
// flags, flags that are complete. What the flags' values mean is not looked at.
func TestCommandLinesInDocuments(t *testing.T) {
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "examples/*/README.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil || more == nil {
			t.Fatalf("%s: no pages (%v)", pattern, err)
		}
		pages = append(pages, more...)
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range block.FindAllSubmatch(text, -1) {
			for _, args := range commandLines(string(match[1])) {
				found++
				if text := tryCommandLine(t, args); text != "" {
					t.Errorf("%s: biocage %s: %s", page, strings.Join(args, " "), text)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d command lines were found", found)
	}
}

// tryCommandLine parses a command line by asking for its help, which is given
// after all flags have been read.
func tryCommandLine(t *testing.T, args []string) string {
	t.Helper()
	args = slices.Clone(args)
	if i := slices.Index(args, "remove"); i > 0 && args[i-1] == "env" && len(args) == i+2 {
		args = args[:i+1] // the only command whose flags end at a name
	}
	var stdout, stderr bytes.Buffer
	p := process{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
	if code := exitCode(p, dispatch(t.Context(), p, append(args, "--help"))); code != 0 || !strings.HasPrefix(stdout.String(), "Usage: biocage") {
		return "exit code " + string(rune('0'+code)) + ", " + stderr.String() + stdout.String()
	}
	return ""
}

// commandLines gives the arguments of every biocage in a shell script that
// stands where a command does: first, behind an operator, an assignment, sudo,
// or the -- of a command that runs another.
func commandLines(script string) [][]string {
	var lines [][]string
	first, inside := true, false
	for _, word := range shellWords(script) {
		switch {
		case len(word) == 1 && strings.Contains(operators, word):
			first, inside = !strings.ContainsAny(word, "<>"), false
		case inside:
			lines[len(lines)-1] = append(lines[len(lines)-1], word)
		case first && !strings.Contains(word, "=") && (word == "biocage" || strings.HasSuffix(word, "/biocage")):
			lines, inside = append(lines, nil), true
		default:
			first = word == "--" || first && (word == "sudo" || strings.Contains(word, "="))
		}
	}
	return lines
}

const operators = "\n|;&()<>"

// shellWords cuts a script into words; operators and line ends are words of
// their own. Quotes, comments, here-documents' starts and continued lines are
// understood, expansions are not.
func shellWords(script string) []string {
	var (
		words []string
		word  strings.Builder
		open  bool // a word has begun
		quote rune
	)
	end := func() {
		if open {
			words = append(words, word.String())
			word.Reset()
			open = false
		}
	}
	script = strings.ReplaceAll(script, "\\\n", " ")
	script = regexp.MustCompile(`(?s)<<-?'?(\w+)'?\n.*?\n\w+\n`).ReplaceAllString(script, "\n")
	script = regexp.MustCompile(`(?m)(^|\s)#.*$`).ReplaceAllString(script, "$1")
	for _, c := range script {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case quote != 0:
			word.WriteRune(c)
		case c == ' ' || c == '\t':
			end()
		case strings.ContainsRune(operators, c):
			end()
			words = append(words, string(c))
		default:
			word.WriteRune(c)
			open = true
		}
	}
	end()
	return words
}

func TestCommandLines(t *testing.T) {
	got := commandLines("x=1 # bin/biocage not\necho 'a b' | bin/biocage run \\\n  --json - >out && biocage doctor; claude mcp add biocage -- /usr/local/bin/biocage serve\nA=bin/biocage biocage run - <<'EOF'\nbiocage inside\nEOF\nbiocage version\n")
	want := [][]string{{"run", "--json", "-"}, {"doctor"}, {"serve"}, {"run", "-"}, {"version"}}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("line %d: got %q, want %q", i, got[i], want[i])
		}
	}
	for line, ok := range map[string]bool{
		"run --json --timeout 10s script.py": true,
		"--engine gvisor doctor":             true,
		"env remove mine":                    true,
		"run --jsn script.py":                false,
		"env build --nam x":                  false,
		"explode":                            false,
	} {
		if text := tryCommandLine(t, strings.Fields(line)); (text == "") != ok {
			t.Errorf("%s: %q", line, text)
		}
	}
}
