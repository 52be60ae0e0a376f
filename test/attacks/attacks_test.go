//go:build linux

package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A state is what became of an attack.
type state string

const (
	passed    state = "passed"
	weaker    state = "weaker" // with the engine's own condition
	failed    state = "failed"
	recorded  state = "recorded" // info: it is not judged
	notTried  state = "not run"
	roundTime       = 6 * time.Minute
)

// notRun is the error of what cannot be tried here.
type notRunError struct{ why string }

func (e notRunError) Error() string { return e.why }

func notRun(format string, args ...any) error { return notRunError{fmt.Sprintf(format, args...)} }

// A record is a line of the report.
type record struct {
	ID     string   `json:"id"`
	Class  string   `json:"class"`
	Engine string   `json:"engine"`
	State  state    `json:"state"`
	Faults []string `json:"faults,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Took   float64  `json:"seconds"`
}

// A siege is all attacks on one lab. At most two servers live at a time.
type siege struct {
	lab      *lab
	a, other *client
	records  []record
}

func TestAttacks(t *testing.T) {
	if *engineFlag != "" {
		besiege(t, *engineFlag)
		return
	}
	for _, engine := range []string{"docker", "gvisor"} {
		t.Run(engine, func(t *testing.T) { besiege(t, engine) })
	}
}

// besiege tries all attacks on one engine, class by class.
func besiege(t *testing.T, engine string) {
	t.Helper()
	l := newLab(t, engine)
	var lines []line
	for file := range strings.SplitSeq(*corpusFlag, ",") {
		more, err := load(file, engine, l.fill)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, more...)
	}
	s := &siege{lab: l}
	t.Cleanup(func() {
		for _, c := range []*client{s.a, s.other} {
			if c != nil {
				if err := c.Close(); err != nil {
					t.Errorf("the server did not end well: %v", err)
				}
			}
		}
	})
	classes := map[string][]line{}
	var order []string
	for _, line := range lines {
		if classes[line.Class] == nil {
			order = append(order, line.Class)
		}
		classes[line.Class] = append(classes[line.Class], line)
	}
	slices.Sort(order)
	for _, class := range order {
		t.Run(class, func(t *testing.T) {
			for _, line := range classes[class] {
				if why := doesNotApply(line.attack); why != "" {
					t.Logf("does not apply: %s: %s", line.ID, why)
					continue
				}
				t.Run(line.ID, func(t *testing.T) { s.try(t, line) })
			}
		})
	}
	t.Log("\n" + s.table())
	if err := s.report(); err != nil {
		t.Error(err)
	}
}

// try runs one attack and records what became of it.
func (s *siege) try(t *testing.T, l line) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), roundTime)
	defer cancel()
	begin := time.Now()
	r := &round{siege: s, files: map[string]facts{}, before: map[string]map[string]bool{}, names: names(l.Must.Then)}
	err := l.unclear
	if err != nil {
		err = notRun("the attack is not understood: %v", err)
	} else {
		err = r.play(ctx, l.attack)
	}
	rec := record{ID: l.ID, Class: l.Class, State: passed, Took: time.Since(begin).Seconds()}
	if s.a != nil {
		rec.Engine = s.a.engine
	}
	var skip notRunError
	switch {
	case errors.As(err, &skip):
		rec.State = notTried
		r.notef("not run: %s", skip.why)
	case err != nil:
		r.faultf("%v", err)
	case l.Must.Info:
		rec.State = recorded
	case l.weaker != "":
		rec.State = weaker
		r.notef("weaker: %s", l.weaker)
	}
	if len(r.faults) > 0 {
		rec.State = failed
	}
	rec.Faults, rec.Notes = r.faults, r.notes
	s.records = append(s.records, rec)
	for _, note := range r.notes {
		t.Log(note)
	}
	for _, fault := range r.faults {
		t.Error(fault)
	}
	if rec.State == failed || r.exposed {
		s.startAnew(t) // one failure is one; exposed files stay with the session
	}
	if rec.State == notTried {
		t.Skip(skip.why)
	}
}

// startAnew gives the next attack fresh servers.
func (s *siege) startAnew(t *testing.T) {
	t.Helper()
	for _, c := range []**client{&s.a, &s.other} {
		if *c == nil {
			continue
		}
		if err := (*c).Close(); err != nil {
			t.Errorf("the server did not end well: %v", err)
		}
		*c = nil
	}
}

// table counts by class.
func (s *siege) table() string {
	states := []state{passed, weaker, failed, recorded, notTried}
	counts := map[string]map[state]int{}
	total := map[state]int{}
	for _, r := range s.records {
		if counts[r.Class] == nil {
			counts[r.Class] = map[state]int{}
		}
		counts[r.Class][r.State]++
		total[r.State]++
	}
	var b strings.Builder
	row := func(name string, of map[state]int) {
		fmt.Fprintf(&b, "%-12s", name)
		for _, state := range states {
			fmt.Fprintf(&b, "%10d", of[state])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%-12s", "class")
	for _, state := range states {
		fmt.Fprintf(&b, "%10s", state)
	}
	b.WriteByte('\n')
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		row(name, counts[name])
	}
	row("all", total)
	for _, r := range s.records {
		if r.State == failed || r.State == notTried || r.State == weaker {
			fmt.Fprintf(&b, "%s %s: %s\n", r.State, r.ID, strings.Join(append(r.Faults, r.Notes...), "\n    "))
		}
	}
	return b.String()
}

// report writes the records to the file that -report names.
func (s *siege) report() error {
	if *reportFlag == "" {
		return nil
	}
	f, err := os.OpenFile(*reportFlag, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(f)
	for _, r := range s.records {
		if err := encoder.Encode(r); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
