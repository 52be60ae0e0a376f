package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	sessionless = Ref{Principal: "alice"}
	connected   = Ref{Principal: "alice", Connection: "c1"}
)

func with(ref Ref, handle string) Ref {
	ref.Handle = handle
	return ref
}

func runError(t *testing.T, m *Manager, ref Ref) error {
	t.Helper()
	_, err := m.Run(t.Context(), ref, RunRequest{Code: "n += 1"})
	return err
}

// Where the protocol has no session each call without a handle begins one,
// and says how to come back.
func TestSessionlessCallsBeginSessions(t *testing.T) {
	for _, ref := range []Ref{sessionless, {}} {
		synctest.Test(t, func(t *testing.T) {
			m := newTestManager(t, &fakeEngine{}, nil)
			first, second := mustRun(t, m, ref, "n += 1"), mustRun(t, m, ref, "n += 1")
			if value(second) != "1" || first.Session == second.Session || first.Begun != first.Session || second.Begun != second.Session {
				t.Errorf("two calls without a handle: %+v, %+v", first, second)
			}
			again := mustRun(t, m, with(ref, first.Session), "n += 1")
			if value(again) != "2" || again.Session != first.Session || again.Begun != "" {
				t.Errorf("back with the handle: %+v", again)
			}
			wrote, err := m.WriteFile(t.Context(), ref, WriteRequest{Path: "a", Data: []byte("x")})
			if err != nil || wrote.Begun == "" || wrote.Begun != wrote.Session {
				t.Errorf("a file without a handle: %+v, %v", wrote, err)
			}
			if _, err := m.ReadFile(t.Context(), with(ref, wrote.Session), ReadRequest{Path: "a"}); err != nil {
				t.Error(err)
			}
			fresh, err := m.Reset(t.Context(), ref, ResetRequest{Limits: &Limits{PIDs: 32}})
			if err != nil || fresh.Begun == "" || fresh.Begun != fresh.Session {
				t.Errorf("a reset without a handle: %+v, %v", fresh, err)
			}
		})
	}
}

// The client of an authenticated connection is told too: it may come back over
// another one. On a pipe there is no other.
func TestConnectionsOwnSessionIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		first := mustRun(t, m, connected, "n += 1")
		if first.Begun != first.Session {
			t.Errorf("the first call: %+v", first)
		}
		if got := mustRun(t, m, connected, "n += 1"); got.Begun != "" || value(got) != "2" {
			t.Errorf("the second: %+v", got)
		}
		if got := mustRun(t, m, Ref{Connection: "stdio"}, "n += 1"); got.Begun != "" {
			t.Errorf("on a pipe: %+v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		other := Ref{Principal: "alice", Connection: "c2"}
		given, err := m.Run(ctx, other, RunRequest{Code: "sleep"})
		if err != nil {
			t.Fatal(err)
		}
		if got := mustRun(t, m, other, "n += 1"); got.Session != given.Session {
			t.Errorf("a cancelled call took its connection's session along: %+v", got)
		}
	})
}

// What only reads begins nothing that nobody asked for.
func TestReadsNeedASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		for name, ref := range map[string]Ref{"no handle": sessionless, "an unused name": with(connected, "work")} {
			var none *NoSessionError
			_, err := m.ReadFile(t.Context(), ref, ReadRequest{Path: "a"})
			if !errors.As(err, &none) {
				t.Errorf("%s: ReadFile: %v", name, err)
			}
			if _, err := m.ListFiles(t.Context(), ref, ListRequest{}); !errors.As(err, &none) {
				t.Errorf("%s: ListFiles: %v", name, err)
			}
			if _, err := m.Info(t.Context(), ref); !errors.As(err, &none) {
				t.Errorf("%s: Info: %v", name, err)
			}
			if _, err := m.Wait(t.Context(), ref, WaitRequest{}); !errors.As(err, &none) {
				t.Errorf("%s: Wait: %v", name, err)
			}
			if _, err := m.Reset(t.Context(), ref, ResetRequest{Close: true}); !errors.As(err, &none) {
				t.Errorf("%s: close: %v", name, err)
			}
		}
		if n := e.created.Load(); n != 0 {
			t.Errorf("%d sandboxes were made", n)
		}
		mine := mustRun(t, m, sessionless, "n += 1")
		var none *NoSessionError
		if _, err := m.Info(t.Context(), sessionless); !errors.As(err, &none) || len(none.Own) != 1 || none.Own[0].Session != mine.Session {
			t.Errorf("the caller's sessions are not told: %+v", none)
		}
		if _, err := m.Info(t.Context(), Ref{Principal: "bob"}); !errors.As(err, &none) || len(none.Own) != 0 {
			t.Errorf("another's are told: %+v", none)
		}
	})
}

// A handle is worth nothing to another principal, and says no more than one
// that was never made; after a restart its owner is told so.
func TestHandlesOfOthersAndOfEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) { o.HandleKey = []byte("kept") })
		mine := mustRun(t, m, connected, "n += 1").Session
		never := minter{key: []byte("another")}.mint("bob")
		for _, ref := range []Ref{{Principal: "bob"}, {Principal: "bob", Connection: "c1"}, {Connection: "c1"}} {
			foreign, unknown := runError(t, m, with(ref, mine)), runError(t, m, with(ref, never))
			if !errors.Is(foreign, ErrUnknown) || foreign.Error() != unknown.Error() {
				t.Errorf("%+v: a foreign handle: %v; an unknown one: %v", ref, foreign, unknown)
			}
		}
		if got := mustRun(t, m, with(Ref{Principal: "alice", Connection: "c2"}, mine), "n += 1"); value(got) != "2" {
			t.Errorf("over another connection of its principal: %+v", got)
		}
		later := newTestManager(t, &fakeEngine{}, func(o *Options) { o.HandleKey = []byte("kept") })
		var ended *EndedError
		if err := runError(t, later, with(sessionless, mine)); !errors.As(err, &ended) || !ended.Restarted || !errors.Is(err, ErrUnknown) {
			t.Errorf("after a restart: %v", err)
		}
		if err := runError(t, later, with(Ref{Principal: "bob"}, mine)); errors.As(err, &ended) || !errors.Is(err, ErrUnknown) {
			t.Errorf("after a restart, to another: %v", err)
		}
	})
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) { o.MaxSessions = 16 })
		first := mustRun(t, m, with(connected, "work"), "n += 1")
		if first.Begun != "work" || !IsHandle(first.Session) {
			t.Errorf("a new name: %+v", first)
		}
		for _, ref := range []Ref{with(connected, "work"), with(sessionless, "work"), with(Ref{Principal: "alice", Connection: "c2"}, "work"), with(sessionless, first.Session)} {
			if got := mustRun(t, m, ref, "n += 1"); got.Session != first.Session || got.Begun != "" {
				t.Errorf("%+v leads elsewhere: %+v", ref, got)
			}
		}
		for _, ref := range []Ref{connected, with(connected, "play"), with(Ref{Principal: "bob"}, "work"), with(Ref{Connection: "c1"}, "work"), with(Ref{Connection: "c2"}, "work")} {
			if got := mustRun(t, m, ref, "n += 1"); value(got) != "1" {
				t.Errorf("%+v shares the session: %+v", ref, got)
			}
		}
		var refused *ArgumentError
		for _, wrong := range []string{"Work", "-x", "a b", "a_b", "é", strings.Repeat("a", 33), "sbx-É"} {
			if err := runError(t, m, with(connected, wrong)); !errors.As(err, &refused) {
				t.Errorf("the name %q: %v", wrong, err)
			}
		}
		if err := runError(t, m, Ref{Handle: "work"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "leave session out") {
			t.Errorf("a name without a scope: %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := m.ReadFile(t.Context(), with(connected, "work"), ReadRequest{Path: "a"}); !errors.As(err, new(*EndedError)) {
			t.Errorf("reading of a name that has expired: %v", err)
		}
		if got := mustRun(t, m, with(connected, "work"), "n += 1"); value(got) != "1" || !got.Restarted || got.Begun != "work" {
			t.Errorf("running with it: %+v", got)
		}
	})
}

// After its connection has gone a session waits for its client, for the grace.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		back, lost := mustRun(t, m, connected, "n += 1"), mustRun(t, m, Ref{Principal: "bob", Connection: "c2"}, "n += 1")
		m.Disconnect("c1")
		m.Disconnect("c2")
		m.Disconnect("")
		time.Sleep(9 * time.Minute)
		if got := mustRun(t, m, with(sessionless, back.Session), "n += 1"); value(got) != "2" {
			t.Errorf("within the grace: %+v", got)
		}
		time.Sleep(20 * time.Minute) // of 30 that it may be idle, for its client is there again
		if got := mustRun(t, m, with(sessionless, back.Session), "n += 1"); value(got) != "3" {
			t.Errorf("after the grace of a client that came back: %+v", got)
		}
		err := runError(t, m, Ref{Principal: "bob", Handle: lost.Session})
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "gone for 10m0s (session.grace)") {
			t.Errorf("after the grace: %v", err)
		}
		if n := e.alive(); n != 1 {
			t.Errorf("%d sandboxes live, want one", n)
		}
	})
}

// A run outlives the connection that asked for it; its result can be fetched
// for as long as the grace lasts.
func TestGraceBeginsWithTheRunsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) { o.AnswerWithin, o.Grace = time.Second, 40*time.Second })
		res, err := m.Run(t.Context(), connected, RunRequest{Code: "sleep 60", Timeout: 5 * time.Minute})
		if err != nil || res.Status != StatusRunning {
			t.Fatalf("%+v, %v", res, err)
		}
		m.Disconnect("c1")
		time.Sleep(90 * time.Second)
		if got, err := m.Wait(t.Context(), with(sessionless, res.Session), WaitRequest{}); err != nil || value(got) != "'slept'" {
			t.Errorf("%+v, %v", got, err)
		}
		m.Disconnect("c1")
		time.Sleep(time.Minute)
		if err := runError(t, m, with(sessionless, res.Session)); !strings.Contains(fmt.Sprint(err), "session.grace") {
			t.Errorf("after the grace: %v", err)
		}
	})
}

func TestNoGraceEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, func(o *Options) { o.Grace = 0 })
		mustRun(t, m, connected, "n += 1")
		m.Disconnect("c1")
		synctest.Wait()
		if n := e.alive(); n != 0 {
			t.Errorf("%d sandboxes live", n)
		}
	})
}

// A session whose handle is never passed does not keep its place for long.
func TestUnclaimedSessionsEndSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		one, used := mustRun(t, m, sessionless, "n += 1"), mustRun(t, m, sessionless, "n += 1")
		mustRun(t, m, with(sessionless, used.Session), "n += 1")
		time.Sleep(15 * time.Minute)
		if err := runError(t, m, with(sessionless, one.Session)); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "nobody came back") {
			t.Errorf("one that nobody came back to: %v", err)
		}
		if got := mustRun(t, m, with(sessionless, used.Session), "n += 1"); value(got) != "3" {
			t.Errorf("one that was used: %+v", got)
		}
	})
}

// A call that was given up, or refused, leaves no session behind that nobody
// knows of.
func TestOrphansEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Run(ctx, sessionless, RunRequest{Code: "sleep"}); err != nil {
			t.Fatal(err)
		}
		e.mu.Lock()
		e.fail = errTest
		e.mu.Unlock()
		for _, ref := range []Ref{sessionless, with(sessionless, "work")} {
			if err := runError(t, m, ref); !errors.Is(err, errTest) {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Second)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.sessions) != 0 || e.alive() != 0 || roomsFree(m) != m.opts.MaxSessions {
			t.Errorf("%d sessions, %d sandboxes, %d rooms free", len(m.sessions), e.alive(), roomsFree(m))
		}
	})
}

func roomsFree(m *Manager) int {
	m.rooms.mu.Lock()
	defer m.rooms.mu.Unlock()
	return m.rooms.free
}

// An answer that comes before the sandbox is there tells the handle all the
// same.
func TestSlowBeginningTellsTheHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{slow: 50 * time.Second}, nil)
		var busy *BusyError
		if err := runError(t, m, sessionless); !errors.As(err, &busy) || busy.Begun == "" {
			t.Fatalf("%+v", err)
		}
		if got := mustRun(t, m, with(sessionless, busy.Begun), "n += 1"); value(got) != "1" {
			t.Errorf("%+v", got)
		}
	})
}

func TestCloseSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, func(o *Options) { o.MaxSessions = 1 })
		var refused *ArgumentError
		if _, err := m.Reset(t.Context(), connected, ResetRequest{Close: true}); !errors.As(err, &refused) {
			t.Errorf("nothing to close: %v", err)
		}
		first := mustRun(t, m, connected, "n += 1")
		for _, also := range []ResetRequest{{Close: true, KeepFiles: true}, {Close: true, Limits: &Limits{}}} {
			if _, err := m.Reset(t.Context(), connected, also); !errors.As(err, &refused) {
				t.Errorf("%+v: %v", also, err)
			}
		}
		ended := make(chan RunResult)
		go func() {
			res, err := m.Run(context.WithoutCancel(t.Context()), connected, RunRequest{Code: "sleep"})
			if err != nil {
				t.Error(err)
			}
			ended <- res
		}()
		synctest.Wait()
		res, err := m.Reset(t.Context(), connected, ResetRequest{Close: true})
		if err != nil || !res.Closed || res.Session != first.Session || e.alive() != 0 {
			t.Errorf("%+v, %v; %d sandboxes live", res, err, e.alive())
		}
		if res := <-ended; res.Error == nil || res.Error.Kind != KindCancelled || !strings.Contains(res.Error.Message, closedByClient) {
			t.Errorf("the run under way: %+v", res)
		}
		if err := runError(t, m, with(connected, first.Session)); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), closedByClient) {
			t.Errorf("its handle: %v", err)
		}
		if got := mustRun(t, m, connected, "n += 1"); value(got) != "1" || got.Restarted {
			t.Errorf("the next call: %+v", got)
		}
	})
}

func TestQuotaOfAPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) { o.MaxEach = 3 })
		mustRun(t, m, with(sessionless, "work"), "n += 1")
		time.Sleep(time.Minute)
		var mine []string
		for range 2 {
			mine = append(mine, mustRun(t, m, sessionless, "n += 1").Session)
		}
		start := time.Now()
		var refused *TooManyError
		if err := runError(t, m, sessionless); !errors.As(err, &refused) || !refused.Each || refused.Limit != 3 || len(refused.Own) != 3 || refused.Own[0].Name != "work" {
			t.Errorf("%+v", err)
		}
		if time.Since(start) != 0 {
			t.Error("a call waited for what only its own principal can give")
		}
		mustRun(t, m, Ref{Principal: "bob"}, "n += 1") // the fourth room is another's
		if _, err := m.Reset(t.Context(), with(sessionless, mine[0]), ResetRequest{Close: true}); err != nil {
			t.Fatal(err)
		}
		mustRun(t, m, sessionless, "n += 1")
		info, err := m.Info(t.Context(), with(sessionless, "work"))
		if err != nil || info.Name != "work" || len(info.Others) != 2 || info.Others[0].Name != "" || info.IdleSeconds != 60 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// Who waits for a free room gets it in turn: first who holds the fewest.
func TestRoomsAreSharedFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) { o.MaxEach = 3 })
		mustRun(t, m, sessionless, "n += 1")
		mustRun(t, m, sessionless, "n += 1")
		var others []string
		for range 2 {
			others = append(others, mustRun(t, m, Ref{Principal: "carol"}, "n += 1").Session)
		}
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for _, principal := range []string{"alice", "bob"} {
			wg.Go(func() {
				_, err := m.Run(t.Context(), Ref{Principal: principal}, RunRequest{Code: "n += 1"})
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, ErrTooMany) {
					principal += " refused"
				} else if err != nil {
					t.Error(err)
				}
				order = append(order, principal)
			})
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		if _, err := m.Reset(t.Context(), Ref{Principal: "carol", Handle: others[0]}, ResetRequest{Close: true}); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if diff := cmp.Diff([]string{"bob", "alice refused"}, order); diff != "" {
			t.Error(diff)
		}
	})
}

// A burst of one principal delays another's first call by no more than the
// making of one sandbox, and no more are made at once than may be.
func TestCreationsAreSharedFairly(t *testing.T) {
	for _, warm := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d kept ready", warm), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fakeEngine{slow: 10 * time.Second}
				m := newTestManager(t, e, func(o *Options) { o.MaxSessions, o.MaxEach, o.Starts, o.Warm = 16, 12, 1, warm })
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() {
						if err := runError(t, m, sessionless); err != nil && !errors.As(err, new(*BusyError)) {
							t.Error(err)
						}
					})
				}
				time.Sleep(time.Second)
				start := time.Now()
				mustRun(t, m, Ref{Principal: "bob"}, "n += 1")
				if took := time.Since(start); took > 20*time.Second {
					t.Errorf("another's first call took %s, its own sandbox 10s", took)
				}
				wg.Wait()
				if most := e.most.Load(); most > int64(1+warm) {
					t.Errorf("%d sandboxes were made at once", most)
				}
			})
		})
	}
}

// Sandboxes are refused when their limits exceed the machine several times
// over, and made again when others have ended.
func TestMemoryIsNotPromisedEndlessly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{memory: 1 << 29} // half of what one sandbox may take
		m := newTestManager(t, e, func(o *Options) { o.MaxSessions = 16 })
		first := mustRun(t, m, sessionless, "n += 1")
		mustRun(t, m, Ref{Principal: "bob"}, "n += 1")
		var refused *TooManyError
		if err := runError(t, m, sessionless); !errors.As(err, &refused) || refused.Promised != 2<<30 || len(refused.Own) != 1 || refused.Own[0].Session != first.Session {
			t.Errorf("%+v", err)
		}
		if _, err := m.Reset(t.Context(), with(sessionless, "small"), ResetRequest{Limits: &Limits{MemoryBytes: 64 << 20}}); !errors.Is(err, ErrTooMany) {
			t.Errorf("a smaller one: %v", err)
		}
		if _, err := m.Reset(t.Context(), with(sessionless, first.Session), ResetRequest{Close: true}); err != nil {
			t.Fatal(err)
		}
		mustRun(t, m, sessionless, "n += 1")
	})
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{memory: 1 << 20}, nil)
		mustRun(t, m, connected, "n += 1") // the first is always made
	})
}
