// Command features keeps what test runs found, and compares it with
// docs/FEATURES.md: every ability there names tests, and each of them must have
// passed, on both engines where it runs on both.
//
//	go test -json ./... | go run ./scripts/features record build/results/NAME.json
//	go run ./scripts/features check build/results docs/FEATURES.md
//
// record prints what go test would print without -json. A file whose name ends
// in -docker.json or -gvisor.json holds a run on that engine only. check also
// reads the agent's results, agent.xml in the same directory.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "features:", err)
		os.Exit(1) //nolint:forbidigo // a main of its own
	}
}

func run(args []string) error {
	switch {
	case len(args) >= 2 && args[0] == "record" && (len(args) == 2 || len(args) == 3 && args[2] == "--no-skips"):
		if err := os.MkdirAll(filepath.Dir(args[1]), 0o755); err != nil { //nolint:gosec // as readable as any build output
			return err
		}
		file, err := os.Create(args[1]) //nolint:gosec // the caller's own paths
		if err != nil {
			return err
		}
		return errors.Join(record(os.Stdin, file, os.Stdout, len(args) == 3), file.Close())
	case len(args) == 3 && args[0] == "check":
		return check(args[1], args[2])
	}
	return errors.New("usage: features record FILE [--no-skips] | features check DIRECTORY TABLE")
}

// check reads results and table and fails with every fault.
func check(dir, table string) error {
	text, err := os.ReadFile(table) //nolint:gosec // the caller's own paths
	if err != nil {
		return err
	}
	rows, err := parseTable(string(text))
	if err != nil {
		return err
	}
	all, err := readResults(dir)
	if err != nil {
		return err
	}
	faults := judge(rows, all)
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%d faults in %s against the results in %s", len(faults), table, dir)
	}
	_, err = fmt.Fprintf(os.Stdout, "%d abilities, each with passing tests\n", len(rows))
	return err
}
