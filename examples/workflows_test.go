// Package examples tests the example workflows against the real binary, on
// each engine. BIOCAGE_TEST_BINARY names the binary.
package examples

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// missing skips the test, or fails it where everything must be there.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// onEachEngine runs the test on every engine that works here.
func onEachEngine(t *testing.T, test func(t *testing.T, binary, engine string)) {
	t.Helper()
	if testing.Short() {
		t.Skip("examples start sandboxes; they do not run with -short")
	}
	binary := os.Getenv("BIOCAGE_TEST_BINARY")
	if binary == "" {
		missing(t, "BIOCAGE_TEST_BINARY names no binary")
	}
	if !filepath.IsAbs(binary) {
		binary = filepath.Join("..", binary)
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"docker", "gvisor"} {
		t.Run(engine, func(t *testing.T) {
			if _, out, code := command(t, nil, binary, "doctor", "--engine", engine); code != 0 {
				missing(t, "the engine %s does not work here:\n%s", engine, out)
			}
			test(t, binary, engine)
		})
	}
}

// command runs a program from the top of the source tree, as the README says.
func command(t *testing.T, environ []string, name string, args ...string) (stdout, all string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), environ...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out.String(), out.String() + errs.String(), cmd.ProcessState.ExitCode()
}

// unwrapped is the demo's text on one line: where it breaks depends on figures.
func unwrapped(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "│", " ")), " ")
}

// The demo checks each of its answers itself; here it is checked that it says
// so, and that what it saved is a figure and a table of the data.
func TestDemo(t *testing.T) {
	program := filepath.Join(t.TempDir(), "demo")
	if _, all, code := command(t, nil, "go", "build", "-o", program, "./examples/demo"); code != 0 {
		t.Fatal(all)
	}
	onEachEngine(t, func(t *testing.T, binary, engine string) {
		dir := t.TempDir()
		out, all, code := command(t, nil, program, binary, "--engine", engine, "--out", dir)
		if code != 0 {
			t.Errorf("exit code %d:\n%s", code, all)
		}
		for _, part := range []string{
			"Load it into a data frame", "119 rows x 8 columns", "environment default", "engine " + engine,
			"✓ A figure", "✓ No way out: there is no network", "✓ Nothing is left", "All as it must be.",
		} {
			if !strings.Contains(unwrapped(out), part) {
				t.Errorf("%q is not told", part)
			}
		}
		if strings.Contains(out, "✗") {
			t.Errorf("a step differs:\n%s", out)
		}
		checkFigure(t, filepath.Join(dir, "penguins.png"))
		table, err := os.ReadFile(filepath.Join(dir, "summary.csv"))
		if rows := strings.Split(strings.TrimSpace(string(table)), "\n"); err != nil || len(rows) != 7 || !strings.HasPrefix(rows[1], "Adelie,female,3368.8") {
			t.Errorf("the table: %v %q", err, table)
		}
	})
}

// checkFigure sees that a picture shows something: it is large enough and has
// several colours.
func checkFigure(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	figure, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("the figure: %v", err)
	}
	colours := map[color.Color]bool{}
	size := figure.Bounds()
	for x := size.Min.X; x < size.Max.X; x += 2 {
		for y := size.Min.Y; y < size.Max.Y; y += 2 {
			colours[figure.At(x, y)] = true
		}
	}
	if size.Dx() < 300 || size.Dy() < 200 || len(colours) < 10 {
		t.Errorf("the figure has %v and %d colours", size, len(colours))
	}
}

func TestAgentLoop(t *testing.T) {
	onEachEngine(t, func(t *testing.T, binary, engine string) {
		out, all, code := command(t, nil, "python3", "examples/agent/agent.py", "--biocage", binary, "--engine", engine)
		if code != 0 || !strings.Contains(out, "answer: {'north': 160, 'south': 100, 'west': 60}") {
			t.Errorf("exit code %d:\n%s", code, all)
		}
		for _, step := range []string{"a misspelt file", "a misspelt column", "code that never ends", "more memory than there is", "a download without a network"} {
			if _, mended, _ := strings.Cut(out, "\nmended: "); !strings.Contains(mended, step) {
				t.Errorf("%s was not mended", step)
			}
		}
	})
}

// A graded submission, as grade.py tells it.
type graded struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
}

func grade(t *testing.T, binary, engine string, args ...string) (verdicts map[string]string, all string, code int) {
	t.Helper()
	base := []string{"examples/grading/grade.py", "--json", "--jobs", "2", "--biocage", binary, "--engine", engine}
	out, all, code := command(t, nil, "python3", append(base, args...)...)
	verdicts = map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var g graded
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatalf("%v: %s", err, all)
		}
		verdicts[g.Name] = g.Verdict
	}
	return verdicts, all, code
}

func TestGrading(t *testing.T) {
	want := map[string]string{
		"right": "pass", "numpy_right": "pass", "wrong": "fail", "unsorted": "fail", "syntax": "fail", "raises": "fail",
		"endless": "timeout", "hoarder": "memory", "forger": "fail", "leaver": "fail", "spy": "fail",
	}
	onEachEngine(t, func(t *testing.T, binary, engine string) {
		got, all, code := grade(t, binary, engine)
		if diff := cmp.Diff(want, got); diff != "" || code != 0 {
			t.Errorf("exit code %d, verdicts (-want +got):\n%s%s", code, diff, all)
		}
	})
}

// What cannot be graded is no verdict, and is told.
func TestGradingWithoutAnEnvironment(t *testing.T) {
	onEachEngine(t, func(t *testing.T, binary, engine string) {
		t.Setenv("BIOCAGE_ENVIRONMENT", "never-built")
		got, all, code := grade(t, binary, engine)
		if code != 1 || got["right"] != "error" || !strings.Contains(all, "biocage env build") {
			t.Errorf("exit code %d: %s", code, all)
		}
	})
}

func TestChecksInCI(t *testing.T) {
	onEachEngine(t, func(t *testing.T, binary, engine string) {
		environ := []string{"BIOCAGE=" + binary, "BIOCAGE_ENGINE=" + engine}
		artifacts := t.TempDir()
		out, all, code := command(t, environ, "examples/ci/check.sh", "examples/ci/checks", "examples", artifacts)
		if code != 0 || !strings.Contains(out, "ok      data\n") || !strings.Contains(out, "ok      sources\n") {
			t.Errorf("checks that pass: exit code %d\n%s", code, all)
		}
		if summary, err := os.ReadFile(filepath.Join(artifacts, "data", "summary.csv")); err != nil || !bytes.Contains(summary, []byte("mean")) {
			t.Errorf("the artifact: %v %s", err, summary)
		}

		checks := t.TempDir()
		for name, code := range map[string]string{
			"good.py":    "print('fine')",
			"bad.py":     "assert 1 + 1 == 3, 'sums are wrong'",
			"endless.py": "while True: pass",
			"vandal.py":  "open('/data/project/data/penguins.csv', 'w').write('gone')",
		} {
			if err := os.WriteFile(filepath.Join(checks, name), []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, all, code = command(t, append(environ, "CHECK_TIMEOUT=3s"), "examples/ci/check.sh", checks, "examples", artifacts)
		for _, line := range []string{"ok      good\n", "FAILED  bad: exit code 1\n", "FAILED  endless: time limit\n", "FAILED  vandal: exit code 1\n"} {
			if !strings.Contains(out, line) {
				t.Errorf("%q is not told:\n%s", line, all)
			}
		}
		if code != 1 || !strings.Contains(all, "sums are wrong") {
			t.Errorf("checks that fail: exit code %d\n%s", code, all)
		}
	})
}
