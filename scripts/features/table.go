package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A row is one ability of docs/FEATURES.md with the tests that prove it.
type row struct {
	line    int
	ability string
	tests   []string
}

const columns = 5 // ability, MCP, command line, configuration, tests

// parseTable reads the rows of every table with a last column "tests".
func parseTable(text string) ([]row, error) {
	quoted := regexp.MustCompile("`([^`]+)`")
	var (
		rows   []row
		faults []error
	)
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "¦"), "| "), " | ")
		if len(cells) != columns {
			faults = append(faults, fmt.Errorf("line %d has %d columns instead of %d", i+1, len(cells), columns))
			continue
		}
		if cells[columns-1] == "tests" {
			continue
		}
		r := row{line: i + 1, ability: cells[0]}
		for _, match := range quoted.FindAllStringSubmatch(cells[columns-1], -1) {
			r.tests = append(r.tests, match[1])
		}
		if len(r.tests) == 0 {
			faults = append(faults, fmt.Errorf("line %d, %q, names no test", r.line, r.ability))
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		faults = append(faults, errors.New("there is no table of abilities"))
	}
	return rows, errors.Join(faults...)
}
