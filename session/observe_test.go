package session

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seen keeps what an observer was told.
type seen struct {
	mu   sync.Mutex
	told []string
}

func (o *seen) tell(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, fmt.Sprintf(format, args...))
}

func (o *seen) SessionBegan()                        { o.tell("began") }
func (o *seen) SessionEnded(reason string)           { o.tell("ended %s", reason) }
func (o *seen) SandboxMade(ok bool, _ time.Duration) { o.tell("made %v", ok) }
func (o *seen) PoolAsked(hit bool)                   { o.tell("pool %v", hit) }
func (o *seen) CellEnded(kind string, _ time.Duration, restarted bool) {
	o.tell("cell %s %v", kind, restarted)
}

func (o *seen) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	told := o.told
	o.told = nil
	slices.Sort(told)
	return told
}

func TestObserverIsToldOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &seen{}
		m := startTestManager(t, &fakeEngine{}, func(opts *Options) { opts.Observer, opts.Warm = o, 1 })
		check := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, o.take()); diff != "" {
				t.Errorf("%s: (-want +told):\n%s", what, diff)
			}
		}
		check("before anything")
		mustRun(t, m, conn, "n += 1")
		check("the first run", "began", "cell ok false", "made true", "made true", "pool false")
		if c := m.Counts(); c != (Counts{Sessions: 1, Ready: 1}) {
			t.Errorf("counts: %+v", c)
		}
		first := mustRun(t, m, Ref{Connection: "other"}, "n += 1")
		check("another session", "began", "cell ok false", "made true", "pool true")
		if _, err := m.Reset(t.Context(), Ref{Connection: "other", Handle: first.Session}, ResetRequest{Close: true}); err != nil {
			t.Fatal(err)
		}
		check("closed", "ended closed")
		time.Sleep(40 * time.Minute)
		check("left alone", "ended idle")
		mustRun(t, m, conn, "n += 1")
		synctest.Wait()
		o.take()
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("the end", "ended shutdown")
	})
}
