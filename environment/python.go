package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// An interpreter is the base's own Python.
type interpreter struct {
	Path    string `json:"-"`
	Version string `json:"version"`
	Stdlib  string `json:"stdlib"`
}

// findPython finds the Python that a base brings.
func (s *Store) findPython(ctx context.Context, r room) (interpreter, error) {
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return interpreter{}, err
	}
	defer root.Close() //nolint:errcheck // only looked at
	for _, candidate := range []string{"/usr/local/bin/python3", "/usr/bin/python3"} {
		if _, err := root.Lstat(candidate[1:]); err != nil {
			continue
		}
		found := interpreter{Path: candidate}
		out, err := r.enter(ctx, step{
			Name:    "ask the base's Python for its version",
			Command: []string{candidate, "-I", "-S", "-c", "import json, platform, sysconfig; print(json.dumps({'version': platform.python_version(), 'stdlib': sysconfig.get_path('stdlib')}))"},
			Env:     s.stepEnv(),
		})
		if err != nil {
			return interpreter{}, err
		}
		if err := json.Unmarshal(out, &found); err != nil || !path.IsAbs(found.Stdlib) {
			return interpreter{}, fmt.Errorf("the base's Python did not tell its version: %q", out)
		}
		return found, nil
	}
	return interpreter{}, errors.New("the base has no python3 in /usr/local/bin or /usr/bin; choose another base image")
}

// compileBytecode compiles every module below folder, also where the base
// brings bytecode: that is tied to its source's time, which archives do not
// keep, and would be made anew by every interpreter. Ours is valid whatever the
// time.
// Without site, no start-up hook of a package runs. A file that does not
// compile is left as it is: packages ship data and files for other Python
// versions under the names of modules.
func (s *Store) compileBytecode(ctx context.Context, r room, python interpreter, folder string) error {
	script := `import compileall, py_compile, sys
compileall.compile_dir(sys.argv[1], maxlevels=40, force=True, quiet=2, workers=0, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)`
	_, err := r.enter(ctx, step{
		Name:    "compile the Python modules",
		Command: []string{python.Path, "-I", "-S", "-c", script, folder},
		Env:     s.stepEnv(),
	})
	return err
}

// A specifier is a requires-python clause such as >=3.11 or ==3.13.*.
type specifier struct {
	operator string
	release  []int
	prefix   bool // ==3.13.*
}

var specifierPattern = regexp.MustCompile(`^(===?|!=|~=|<=?|>=?)\s*v?(\d+(?:\.\d+){0,3})(\.\*)?$`)

// parseSpecifiers reads a requires-python value; "" allows everything.
func parseSpecifiers(text string) ([]specifier, error) {
	var all []specifier
	for clause := range strings.SplitSeq(text, ",") {
		if clause = strings.TrimSpace(clause); clause == "" {
			continue
		}
		match := specifierPattern.FindStringSubmatch(clause)
		if match == nil || match[3] != "" && match[1] != "==" && match[1] != "!=" || match[1] == "~=" && !strings.Contains(match[2], ".") {
			return nil, fmt.Errorf("%q is not a version specifier such as >=3.11", clause)
		}
		all = append(all, specifier{operator: match[1], release: release(match[2]), prefix: match[3] != ""})
	}
	return all, nil
}

// release is the numeric part of a version: 3.14.0rc2 is 3, 14, 0.
func release(version string) []int {
	var numbers []int
	for part := range strings.SplitSeq(version, ".") {
		if i := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
			part = part[:i]
		}
		number, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// allows tells whether a Python of that version satisfies the clause.
func (s specifier) allows(version string) bool {
	have := release(version)
	if s.prefix {
		have = have[:min(len(have), len(s.release))]
	}
	order := compareReleases(have, s.release)
	switch s.operator {
	case "==", "===":
		return order == 0
	case "!=":
		return order != 0
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	default: // ~=3.11.2 is >=3.11.2 and ==3.11.*
		stem := s.release[:len(s.release)-1]
		return order >= 0 && compareReleases(have[:min(len(have), len(stem))], stem) == 0
	}
}

// compareReleases compares version numbers; missing parts are zero.
func compareReleases(a, b []int) int {
	for i := range max(len(a), len(b)) {
		var x, y int
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return x - y
		}
	}
	return 0
}
