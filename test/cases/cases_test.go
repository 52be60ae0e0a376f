package cases

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// engines are the ones that a server can be asked for.
func engines() []string { return []string{"docker", "gvisor"} }

func TestCases(t *testing.T) {
	if testing.Short() {
		t.Skip("cases start sandboxes; they do not run with -short")
	}
	lines, err := readCorpus(textFlag("corpus"))
	if err != nil {
		t.Fatal(err)
	}
	known, err := readKnown("known.txt")
	if err != nil {
		t.Fatal(err)
	}
	servers, err := strconv.Atoi(textFlag("servers"))
	if err != nil || servers < 1 {
		t.Fatalf("-servers %s: a number from 1 is meant", textFlag("servers"))
	}
	s := &suite{known: known, slots: make(chan struct{}, servers), table: &table{}}
	beds := s.beds(t)
	t.Cleanup(func() { t.Logf("\n%s", s.table) }) // after the parallel sub-tests
	for _, line := range lines {
		sc, err := parse(line)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Run(sc.ID, func(t *testing.T) {
			// Those that stop a daemon share it, and run before all others.
			alone := slices.Contains(sc.Needs, "own-daemon")
			if !alone {
				t.Parallel()
			}
			for _, b := range beds {
				if why := b.doesNotApply(&sc); why != "" {
					s.table.count(b.engine, &sc, "n/a")
					t.Logf("does not apply: %s on %s: %s", sc.ID, b.engine, why)
					continue
				}
				t.Run(b.engine, func(t *testing.T) {
					if !alone {
						t.Parallel()
					}
					s.one(t, b, &sc, line)
				})
			}
		})
	}
}

// A suite is one run over the corpus.
type suite struct {
	known knownFaults
	slots chan struct{}
	table *table
}

// beds are those of the engines that were asked for and work here.
func (s *suite) beds(t *testing.T) []*bed {
	t.Helper()
	program := binary(t)
	buildExtras := extrasBuilder(program)
	asked := engines()
	if named := textFlag("engine"); named != "" {
		asked = strings.Split(named, ",")
	}
	var beds []*bed
	var lacks []string
	for _, engine := range asked {
		b := newBed(t, program, engine, buildExtras)
		switch {
		case b.lacks == "":
			beds = append(beds, b)
		case textFlag("engine") != "" || os.Getenv("CI") == "true":
			t.Fatal(b.lacks)
		default:
			lacks = append(lacks, b.lacks)
			t.Log(b.lacks)
		}
	}
	if len(beds) == 0 {
		missing(t, "%s", strings.Join(lacks, "\n"))
	}
	return beds
}

// one runs a case on a bed and counts how it ended.
func (s *suite) one(t *testing.T, b *bed, sc *scenario, line []byte) {
	t.Helper()
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	if needsRoot(sc) {
		s.table.count(b.engine, sc, "not run")
		t.Skip("not run: this needs root")
	}
	environment, err := b.environmentFor(sc)
	if err != nil {
		s.table.count(b.engine, sc, "not run")
		missing(t, "not run: %v", err)
	}
	begin := time.Now()
	fault := play(b, line, environment, t.TempDir())
	reason, isKnown := s.known[b.engine+" "+sc.ID]
	switch {
	case fault == nil && isKnown:
		s.table.count(b.engine, sc, "passed")
		t.Errorf("passes now: remove it from known.txt (%s)", reason)
	case fault == nil:
		s.table.count(b.engine, sc, "passed")
		t.Logf("passed in %.1f s", time.Since(begin).Seconds())
	case isKnown && sc.Level == "should":
		s.table.count(b.engine, sc, "known")
		t.Skipf("known: %s\n%v", reason, fault)
	default:
		s.table.count(b.engine, sc, "failed")
		t.Errorf("%s (%s): %s\nsource: %s\n%v", sc.ID, sc.Level, sc.Why, sc.Source, fault)
	}
}

// knownFaults gives the reason by "ENGINE ID".
type knownFaults map[string]string

func readKnown(path string) (knownFaults, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	known := knownFaults{}
	for i, line := range strings.Split(string(raw), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		words := strings.SplitN(line, " ", 3)
		if len(words) < 3 || words[0] != "*" && !slices.Contains(engines(), words[0]) {
			return nil, fmt.Errorf("%s:%d: want ENGINE (or *), case and reason", path, i+1)
		}
		for _, engine := range engines() {
			if words[0] == "*" || words[0] == engine {
				known[engine+" "+words[1]] = words[2]
			}
		}
	}
	return known, nil
}

// A table counts how cases ended.
type table struct {
	mu   sync.Mutex
	rows map[row]map[string]int
}

type row struct{ engine, theme, level string }

func (tb *table) count(engine string, sc *scenario, end string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.rows == nil {
		tb.rows = map[row]map[string]int{}
	}
	for _, r := range []row{{engine, sc.Theme, sc.Level}, {engine, "(all)", sc.Level}} {
		if tb.rows[r] == nil {
			tb.rows[r] = map[string]int{}
		}
		tb.rows[r][end]++
	}
}

func (tb *table) String() string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	ends := []string{"passed", "failed", "known", "not run", "n/a"}
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-12s %-7s", "engine", "theme", "level")
	for _, end := range ends {
		fmt.Fprintf(&b, "%8s", end)
	}
	rows := slices.SortedFunc(maps.Keys(tb.rows), func(a, b row) int {
		return strings.Compare(a.engine+" "+a.theme+" "+a.level, b.engine+" "+b.theme+" "+b.level)
	})
	for _, r := range rows {
		fmt.Fprintf(&b, "\n%-8s %-12s %-7s", r.engine, r.theme, r.level)
		for _, end := range ends {
			fmt.Fprintf(&b, "%8d", tb.rows[r][end])
		}
	}
	return b.String()
}
