package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// Every test that the table names is in the tree; whether it passes is for
// check to say.
func TestNamedTestsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "FEATURES.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseTable(string(text))
	if err != nil {
		t.Fatal(err)
	}
	known := goTests(t)
	for _, r := range rows {
		for _, test := range r.tests {
			exists := known.has
			if strings.Contains(test, "::") {
				exists = hasPytest
			}
			// Results are kept without the engine's name, and each engine is asked for.
			for _, part := range strings.Split(test, "/")[1:] {
				if slices.Contains(engines(), part) {
					t.Errorf("line %d, %q: %s names the engine %s; leave it out, both are meant", r.line, r.ability, test, part)
				}
			}
			if !exists(test) {
				t.Errorf("line %d, %q: there is no test %s", r.line, r.ability, test)
			}
		}
	}
}

func hasPytest(name string) bool {
	file, test, _ := strings.Cut(name, "::")
	text, err := os.ReadFile(filepath.Join(root, "pyagent", file))
	return err == nil && strings.Contains(string(text), "\ndef "+test+"(")
}

// goPackages are the test functions of each package, and all text that names
// of sub-tests can come from.
type goPackages map[string]*goPackage

type goPackage struct {
	functions []string
	text      strings.Builder
}

func goTests(t *testing.T) goPackages {
	t.Helper()
	found := goPackages{}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		skipped := []string{"bin", "build", "node_modules", ".git"}
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		}
		switch dir := filepath.Dir(path); {
		case strings.HasSuffix(path, "_test.go"):
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
					p := found.at(dir)
					p.functions = append(p.functions, f.Name.Name)
				}
			}
			return found.at(dir).add(path)
		case strings.HasSuffix(path, ".jsonl") && filepath.Base(dir) == "testdata":
			return found.at(filepath.Dir(dir)).add(path)
		case strings.HasSuffix(path, ".txtar"):
			_, err := found.at(root).text.WriteString(d.Name() + "\n")
			return err
		case filepath.Base(dir) == "sandboxtest" && strings.HasSuffix(path, ".go"): // the suite of both engines
			for _, engine := range engines() {
				if err := found.at(filepath.Join(root, "sandbox", engine)).add(path); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (g goPackages) at(dir string) *goPackage {
	name, err := filepath.Rel(root, dir)
	if err != nil || name == "." {
		name = "main"
	}
	if g[name] == nil {
		g[name] = &goPackage{}
	}
	return g[name]
}

func (p *goPackage) add(path string) error {
	text, err := os.ReadFile(path)
	p.text.Write(text)
	return err
}

func (g goPackages) has(name string) bool {
	pkg, test, ok := strings.Cut(name, ".")
	parts := strings.Split(test, "/")
	p := g[pkg]
	if !ok || p == nil || !slices.Contains(p.functions, parts[0]) {
		return false
	}
	for _, part := range parts[1:] {
		// The testing package writes spaces as underscores.
		if text := p.text.String(); !strings.Contains(text, part) && !strings.Contains(text, strings.ReplaceAll(part, "_", " ")) {
			return false
		}
	}
	return true
}

func TestHas(t *testing.T) {
	known := goTests(t)
	for name, want := range map[string]bool{
		"scripts/features.TestHas":               true,
		"scripts/features.TestNothing":           false,
		"main.TestScripts/usage":                 true,
		"main.TestScripts/no-such-script":        false,
		"sandbox/gvisor.TestSuite/process_limit": true,
		"sandbox/gvisor.TestSuite/no_such_limit": false,
		"test/cases.TestCases/state-19":          true,
		"test/cases.TestCases/state-99":          false,
		"nowhere.TestHas":                        false,
	} {
		if got := known.has(name); got != want {
			t.Errorf("has(%s) = %v", name, got)
		}
	}
	if !hasPytest("tests/test_errors.py::test_hints") || hasPytest("tests/test_errors.py::test_hint") || hasPytest("tests/none.py::test_x") {
		t.Error("hasPytest is wrong")
	}
}

func TestParseTable(t *testing.T) {
	good := "# x\n\n| ability | through MCP | on the command line | in the configuration | tests |\n| --- | --- | --- | --- | --- |\n" +
		"| runs | `python_run` | `run` | `a\\|b` | `session.TestX`, `tests/test_a.py::test_b` |\n"
	rows, err := parseTable(good)
	if err != nil {
		t.Fatal(err)
	}
	want := []row{{line: 5, ability: "runs", tests: []string{"session.TestX", "tests/test_a.py::test_b"}}}
	if diff := cmp.Diff(want, rows, cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"nothing":                              "no table",
		"| a | b | c | d | none |\n":           "names no test",
		"| a | b | `session.TestX` |\n" + good: "3 columns instead of 5",
	} {
		if _, err := parseTable(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseTable(%q): %v, want %s", text, err, want)
		}
	}
}

func TestJudge(t *testing.T) {
	all := []outcome{
		{"session.TestX", "", "pass"},
		{"session.TestX/a", "", "pass"},
		{"session.TestSkipped", "", "skip"},
		{"session.TestBad", "", "pass"},
		{"session.TestBad/sub", "", "fail"},
		{"test/cases.TestCases/c1", "", "pass"},
		{"test/cases.TestCases/c1", "docker", "pass"},
		{"test/cases.TestCases/c1", "gvisor", "pass"},
		{"test/cases.TestCases/c2", "", "pass"},
		{"test/cases.TestCases/c2", "docker", "pass"},
		{"test/cases.TestCases/c2", "gvisor", "skip"},
		{"test/attacks.TestAttacks/net", "docker", "pass"},
		{"tests/test_a.py::test_b", "", "skip"},
		{"tests/test_a.py::test_b", "", "pass"},
	}
	for test, want := range map[string]string{
		"session.TestX":                "",
		"session.TestX/a":              "",
		"session.Test":                 "did not run",
		"session.TestSkipped":          "only ended with skip",
		"session.TestBad":              "failed",
		"test/cases.TestCases/c1":      "",
		"test/cases.TestCases/c2":      "only ended with skip on gvisor",
		"test/attacks.TestAttacks/net": "did not run on gvisor",
		"tests/test_a.py::test_b":      "",
	} {
		if got := judgeTest(test, all); got != want {
			t.Errorf("judgeTest(%s) = %q, want %q", test, got, want)
		}
	}
	if got := judge([]row{{line: 3, ability: "x", tests: []string{"session.TestBad"}}}, all); len(got) != 1 || got[0] != `line 3, "x": session.TestBad failed` {
		t.Error(got)
	}
}

func TestRecordAndReadBack(t *testing.T) {
	const pkg = `"Package":"github.com/biocypher/biocage-mcp/session",`
	events := strings.Join([]string{
		`{"Action":"start",` + pkg + `"x":1}`,
		`{"Action":"output",` + pkg + `"Test":"TestA","Output":"quiet\n"}`,
		`{"Action":"output",` + pkg + `"Test":"TestA","Output":"    a_test.go:9: does not apply: x on gvisor: no daemon\n"}`,
		`{"Action":"pass",` + pkg + `"Test":"TestA"}`,
		`{"Action":"output",` + pkg + `"Test":"TestA/gvisor/sub","Output":"    a_test.go:7: not run: no root\n"}`,
		`{"Action":"skip",` + pkg + `"Test":"TestA/gvisor/sub"}`,
		`{"Action":"output",` + pkg + `"Test":"TestB","Output":"loud\n"}`,
		`{"Action":"fail",` + pkg + `"Test":"TestB"}`,
		`{"Action":"output",` + pkg + `"Test":"TestC","Output":"panic: in the middle\n"}`,
		`{"Action":"output",` + pkg + `"Output":"FAIL\tsession\t0.1s\n"}`,
		`{"Action":"fail",` + pkg + `"Elapsed":0.1}`,
		`{"ImportPath":"other","Action":"build-output","Output":"does not compile\n"}`,
		"go: a line of the go command\n",
	}, "\n")
	var kept, shown strings.Builder
	if err := record(strings.NewReader(events), &kept, &shown, false); err != nil {
		t.Fatal(err)
	}
	if err := record(strings.NewReader(events), io.Discard, io.Discard, true); !errors.Is(err, errSkipped) {
		t.Errorf("a skipped test where none may be: %v", err)
	}
	want := "does not apply: x on gvisor: no daemon\n" +
		"skipped: github.com/biocypher/biocage-mcp/session TestA/gvisor/sub: not run: no root\n" +
		"loud\nFAIL\tsession\t0.1s\npanic: in the middle\ndoes not compile\ngo: a line of the go command\n" +
		"1 tests passed, 1 failed, 1 skipped\n"
	if diff := cmp.Diff(want, shown.String()); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	dir := t.TempDir()
	files := map[string]string{
		"attacks-docker.json": kept.String(),
		"agent.xml": `<?xml version="1.0"?><testsuites><testsuite><testcase classname="tests.test_a" name="test_b[1]"/>` +
			`<testcase classname="tests.test_a" name="test_c"><failure message="x">y</failure></testcase></testsuite></testsuites>`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes := []outcome{
		{"session.TestA", "docker", "pass"},
		{"session.TestA/sub", "gvisor", "skip"},
		{"session.TestB", "docker", "fail"},
		{"tests/test_a.py::test_b", "", "pass"},
		{"tests/test_a.py::test_c", "", "fail"},
	}
	if diff := cmp.Diff(wantOutcomes, got, cmp.AllowUnexported(outcome{})); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// The check as it is run: a row is fine when each of its tests passed, on both
// engines where it runs on engines; a result that is missing, failed or skipped
// is a fault of the row.
func TestCheck(t *testing.T) {
	const table = "| ability | through MCP | on the command line | in the configuration | tests |\n| --- | --- | --- | --- | --- |\n" +
		"| runs | a | b | c | `test/cases.TestCases/one`, `tests/test_a.py::test_b` |\n"
	event := func(action, engine string) string {
		return `{"Action":"` + action + `","Package":"github.com/biocypher/biocage-mcp/test/cases","Test":"TestCases/one/` + engine + `"}` + "\n"
	}
	const agent = `<testsuites><testsuite><testcase classname="tests.test_a" name="test_b"/></testsuite></testsuites>`
	for _, tt := range []struct {
		name, results, agent string
		faults               string // "" is none
	}{
		{"all passed", event("pass", "docker") + event("pass", "gvisor"), agent, ""},
		{"one engine is missing", event("pass", "docker"), agent, "1 faults"},
		{"one engine failed", event("pass", "docker") + event("fail", "gvisor"), agent, "1 faults"},
		{"one engine was skipped", event("skip", "docker") + event("pass", "gvisor"), agent, "1 faults"},
		{"it failed once and passed once", event("fail", "docker") + event("pass", "docker") + event("pass", "gvisor"), agent, "1 faults"},
		{"the agent's test is missing", event("pass", "docker") + event("pass", "gvisor"), `<testsuites/>`, "1 faults"},
		{"nothing ran", "", `<testsuites/>`, "2 faults"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"results/cases.json": tt.results, "results/agent.xml": tt.agent, "table.md": table} {
				path := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			err := run([]string{"check", filepath.Join(dir, "results"), filepath.Join(dir, "table.md")})
			if (err == nil) != (tt.faults == "") || err != nil && !strings.Contains(err.Error(), tt.faults) {
				t.Errorf("check: %v, want %q", err, tt.faults)
			}
		})
	}
}
