package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An outcome is how one test ended in one run.
type outcome struct {
	test   string // as docs/FEATURES.md names it, without the engine
	engine string // "" where the test is of no engine, or of one by its package
	end    string // pass, fail or skip
}

func engines() []string { return []string{"docker", "gvisor"} }

// readResults reads every file of the directory.
func readResults(dir string) ([]outcome, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []outcome
	for _, path := range append(files, filepath.Join(dir, "agent.xml")) {
		data, err := os.ReadFile(path) //nolint:gosec // the caller's own paths
		if err != nil {
			return nil, err
		}
		parse := parseGo
		if filepath.Ext(path) == ".xml" {
			parse = parsePytest
		}
		found, err := parse(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// parseGo reads the events that record kept.
func parseGo(file string, data []byte) ([]outcome, error) {
	var all []outcome
	for line := range strings.Lines(string(data)) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		o := outcome{end: e.Action}
		_, word, _ := strings.Cut(file, "-")
		parts := slices.DeleteFunc(strings.Split(e.Test, "/"), func(part string) bool {
			if slices.Contains(engines(), part) {
				word = part
				return true
			}
			return false
		})
		if slices.Contains(engines(), word) {
			o.engine = word
		}
		o.test = packageName(e.Package) + "." + strings.Join(parts, "/")
		all = append(all, o)
	}
	return all, nil
}

// packageName is the package's path within the module; "main" is the program.
func packageName(path string) string {
	const module = "github.com/biocypher/biocage-mcp"
	if path == module {
		return "main"
	}
	return strings.TrimPrefix(path, module+"/")
}

// parsePytest reads a JUnit file. A test's parameters are left out of its name.
func parsePytest(_ string, data []byte) ([]outcome, error) {
	var report struct {
		Cases []struct {
			Class   string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(data, &report); err != nil { //nolint:gosec // our own pytest wrote it
		return nil, err
	}
	var all []outcome
	for _, c := range report.Cases {
		name, _, _ := strings.Cut(c.Name, "[")
		o := outcome{test: strings.ReplaceAll(c.Class, ".", "/") + ".py::" + name, end: "pass"}
		switch {
		case c.Failure != nil || c.Error != nil:
			o.end = "fail"
		case c.Skipped != nil:
			o.end = "skip"
		}
		all = append(all, o)
	}
	return all, nil
}

// judge tells what the results do not bear out.
func judge(rows []row, all []outcome) []string {
	var faults []string
	for _, r := range rows {
		for _, test := range r.tests {
			if why := judgeTest(test, all); why != "" {
				faults = append(faults, fmt.Sprintf("line %d, %q: %s %s", r.line, r.ability, test, why))
			}
		}
	}
	return faults
}

// judgeTest looks at a test and at those below it. Where some of them are of an
// engine, each engine needs one that passed.
func judgeTest(test string, all []outcome) string {
	ends := map[string]map[string]bool{}
	for _, o := range all {
		if o.test != test && !strings.HasPrefix(o.test, test+"/") {
			continue
		}
		if ends[o.engine] == nil {
			ends[o.engine] = map[string]bool{}
		}
		ends[o.engine][o.end] = true
	}
	wanted := []string{""}
	if ends["docker"] != nil || ends["gvisor"] != nil {
		wanted = engines()
	}
	for engine, seen := range ends {
		if seen["fail"] {
			return strings.TrimSpace("failed " + on(engine))
		}
	}
	for _, engine := range wanted {
		switch seen := ends[engine]; {
		case seen == nil:
			return strings.TrimSpace("did not run " + on(engine))
		case !seen["pass"]:
			return strings.TrimSpace("only ended with " + strings.Join(slices.Sorted(maps.Keys(seen)), ", ") + " " + on(engine))
		}
	}
	return ""
}

func on(engine string) string {
	if engine == "" {
		return ""
	}
	return "on " + engine
}
