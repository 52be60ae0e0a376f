package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// places hands a fair's places to callers who keep each for a second, and
// notes the order in which they got them.
type places struct {
	f   *fair
	mu  sync.Mutex
	got []string
	wg  sync.WaitGroup
}

func (p *places) ask(ctx context.Context, name string) {
	p.wg.Go(func() {
		o := owner{principal: name}
		if p.f.wait(ctx, o) != nil {
			return
		}
		p.mu.Lock()
		p.got = append(p.got, name)
		p.mu.Unlock()
		time.Sleep(time.Second)
		p.f.leave(o)
	})
	synctest.Wait()
}

func TestPlacesGoRoundRobin(t *testing.T) {
	tests := []struct {
		name   string
		places int
		asks   string
		want   string
	}{
		{"in order", 1, "aaa", "aaa"},
		{"a burst does not delay another's first call", 1, "aaaab", "abaaa"},
		{"turns", 1, "aaaabbbbcc", "abcabcabab"},
		{"one place of two", 2, "aaaab", "aabaa"},
		{"who holds fewer is first", 2, "abbba", "abbab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &places{f: newFair(tt.places)}
				for _, name := range tt.asks {
					p.ask(t.Context(), string(name))
				}
				p.wg.Wait()
				got := ""
				for _, name := range p.got {
					got += name
				}
				if tt.name == "who holds fewer is first" {
					got, tt.want = sorted(got), sorted(tt.want)
				}
				if got != tt.want {
					t.Errorf("served %s, want %s", got, tt.want)
				}
				if p.f.free != tt.places || len(p.f.owners) != 0 {
					t.Errorf("at the end: %d free, %d owners known", p.f.free, len(p.f.owners))
				}
			})
		})
	}
}

func sorted(text string) string {
	letters := []byte(text)
	slices.Sort(letters)
	return string(letters)
}

// A place that is given up while waiting, or at the moment it comes, is not
// lost.
func TestPlacesAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &places{f: newFair(1)}
		p.ask(t.Context(), "a")
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		p.ask(short, "b")
		same, cancel := context.WithTimeout(t.Context(), time.Second) // when a leaves
		defer cancel()
		for range 20 {
			p.ask(same, "c")
		}
		p.ask(t.Context(), "d")
		p.wg.Wait()
		if diff := cmp.Diff("d", p.got[len(p.got)-1]); diff != "" {
			t.Error(diff)
		}
		if p.f.free != 1 || len(p.f.owners) != 0 {
			t.Errorf("%d free, %d owners known", p.f.free, len(p.f.owners))
		}
		if err := p.f.wait(short, owner{}); err != nil { // one is free
			t.Error(err)
		}
		if err := p.f.wait(short, owner{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no place and no time: %v", err)
		}
	})
}
