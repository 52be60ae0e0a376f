package serve

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOneWhoSendsManyHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2, 1, 10)
		started := make(chan string, 20)
		finish := make(chan struct{})
		take := func(principal, name string) *turn {
			place, err := turns.take(principal, func() { started <- name; <-finish })
			if err != nil {
				t.Fatal(err)
			}
			return place
		}
		next := func() (names []string) {
			synctest.Wait()
			for len(started) > 0 {
				names = append(names, <-started)
			}
			return names
		}
		take("noisy", "n1")
		for _, name := range []string{"n2", "n3", "n4"} {
			take("noisy", name)
		}
		if diff := cmp.Diff([]string{"n1"}, next()); diff != "" {
			t.Errorf("the noisy one alone may run one call:%s", diff)
		}
		take("other", "o1")
		if diff := cmp.Diff([]string{"o1"}, next()); diff != "" {
			t.Errorf("another's call starts although four are before it:%s", diff)
		}
		dropped := take("other", "o2")
		take("third", "t1")
		take("other", "o3")
		turns.drop(dropped)
		turns.drop(dropped) // what waits no more is not dropped twice
		got := []string{}
		for range 7 {
			finish <- struct{}{}
			got = append(got, next()...)
		}
		if len(got) != 5 || slices.Index(got, "t1") > 2 || slices.Index(got, "o3") > 3 || got[4] != "n4" {
			t.Errorf("started %v", got)
		}
		if len(turns.lines) != 0 || len(turns.circle) != 0 || turns.running != 0 {
			t.Errorf("left: %d lines, %d in the circle, %d running", len(turns.lines), len(turns.circle), turns.running)
		}
	})
}

func TestTheEndOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 1, 10)
		release := make(chan struct{})
		for range 2 {
			if _, err := turns.take("", func() { <-release }); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		if turns.end(time.Second) {
			t.Error("a call that runs was not noticed")
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("waited %s", took)
		}
		if _, err := turns.take("", func() {}); !errors.Is(err, errEnding) {
			t.Errorf("take after the end: %v", err)
		}
		close(release)
	})
}
