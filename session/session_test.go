package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var conn = Ref{Connection: "conn"}

func mustRun(t *testing.T, m *Manager, ref Ref, code string) RunResult {
	t.Helper()
	res, err := m.Run(t.Context(), ref, RunRequest{Code: code})
	if err != nil {
		t.Fatalf("Run(%q): %v", code, err)
	}
	return res
}

func value(res RunResult) string {
	if res.Result == nil {
		return ""
	}
	return *res.Result
}

func TestOutcomes(t *testing.T) {
	tests := []struct {
		code      string
		ooms      int64 // what the engine counts after the cell
		want      RunResult
		stateKept bool
	}{
		{code: "print", want: RunResult{Success: true, Stdout: "hello\n"}, stateKept: true},
		{code: "raise", want: RunResult{ExitCode: 1, Error: &RunError{
			Kind: KindException, Type: "ValueError", Message: "bad", Traceback: "Traceback", Line: 2, Hint: "try 1",
		}}, stateKept: true},
		{code: "sleep", want: RunResult{ExitCode: 124, Error: &RunError{
			Kind: KindTimeout, Type: "TimeoutError", Message: "The code was stopped at its limit of 30 s.", Line: 1,
			Hint: "Variables are kept. Do less in one call, or pass a larger timeout_seconds.",
		}}, stateKept: true},
		{code: "stubborn", want: RunResult{
			ExitCode: 124, Restarted: true,
			RestartReason: "the code could not be interrupted and was killed; variables are gone, files are kept",
			Error: &RunError{
				Kind: KindTimeout, Type: "TimeoutError", Message: "The code was stopped at its limit of 30 s.",
				Hint: "Variables are gone, files of the workspace are kept. Do less in one call, or pass a larger timeout_seconds.",
			},
		}},
		{code: "segv", want: RunResult{
			ExitCode: 139, Restarted: true, RestartReason: "the interpreter was ended by signal SIGSEGV; variables are gone, files are kept",
			Error: &RunError{
				Kind: KindDied, Message: "The Python process was ended by signal SIGSEGV.",
				Hint: "Variables are gone, files of the workspace are kept; the next call runs in a fresh interpreter.",
			},
		}},
		{code: "oom", ooms: 1, want: RunResult{
			ExitCode: 137, Restarted: true, RestartReason: "the interpreter was killed by the memory limit; variables are gone, files are kept",
			Error: &RunError{
				Kind: KindMemory, Type: "MemoryError", Message: "The interpreter was killed by the memory limit.",
				Hint: "Variables are gone, files of the workspace are kept. Work on less data at once, or raise sandbox.memory.",
			},
		}},
		{code: "vanish", want: RunResult{
			ExitCode: 137, Restarted: true, RestartReason: "the sandbox ended: its first process ended; variables and files of the workspace are gone",
			Error: &RunError{
				Kind: KindDied, Message: "The sandbox ended: its first process ended.",
				Hint: "Variables and files of the workspace are gone; the next call starts in a new sandbox.",
			},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fakeEngine{}
				m := newTestManager(t, e, nil)
				mustRun(t, m, conn, "n += 1")
				e.last().ooms.Store(tt.ooms)
				got := mustRun(t, m, conn, tt.code)
				tt.want.Status, tt.want.Files = StatusDone, []FileRef{}
				ignore := cmpopts.IgnoreFields(RunResult{}, "ExecutionTime", "Session", "RunID")
				if diff := cmp.Diff(tt.want, got, ignore, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				want := "1"
				if tt.stateKept {
					want = "2"
				}
				next := mustRun(t, m, conn, "n += 1")
				if value(next) != want || next.Restarted {
					t.Errorf("next run: n = %s, restarted %t; want %s and no second notice", value(next), next.Restarted, want)
				}
			})
		})
	}
}

// A supervisor that no longer answers, or that breaks the protocol, costs its
// sandbox and nothing else, in bounded time.
func TestHostileSupervisor(t *testing.T) {
	for _, code := range []string{"wedge", "forge"} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fakeEngine{}
				m := newTestManager(t, e, nil)
				start := time.Now()
				got := mustRun(t, m, conn, code)
				if got.Success || !got.Restarted || got.RestartReason == "" {
					t.Errorf("got %+v, want a failure that tells of the restart", got)
				}
				if took := time.Since(start); took > 40*time.Second {
					t.Errorf("answered after %s", took)
				}
				if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" {
					t.Errorf("next run: %+v", got)
				}
			})
		})
	}
}

func TestLongRunIsAnsweredAndFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		res, err := m.Run(t.Context(), conn, RunRequest{Code: "sleep 60", Timeout: 5 * time.Minute})
		if err != nil || res.Status != StatusRunning || res.RunID == "" {
			t.Fatalf("got %+v, %v; want a running result", res, err)
		}
		if _, err := m.Run(t.Context(), conn, RunRequest{Code: "n += 1"}); !errors.As(err, new(*BusyError)) {
			t.Errorf("a second run: %v, want BusyError", err)
		}
		rest, err := m.Wait(t.Context(), conn, WaitRequest{RunID: res.RunID})
		if err != nil || value(rest) != "'slept'" || rest.Status != StatusDone {
			t.Errorf("Wait: %+v, %v", rest, err)
		}
		if _, err := m.Wait(t.Context(), conn, WaitRequest{RunID: "run-99"}); !errors.Is(err, ErrNoRun) {
			t.Errorf("Wait for an unknown run: %v", err)
		}
	})
}

func TestWaitInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		mustRun(t, m, conn, "n += 1")
		res, err := m.Run(t.Context(), conn, RunRequest{Code: "sleep 60", Timeout: 5 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		rest, err := m.Wait(t.Context(), conn, WaitRequest{RunID: res.RunID, Interrupt: true})
		if err != nil || rest.ExitCode != 130 || rest.Error.Kind != KindCancelled {
			t.Errorf("Wait: %+v, %v", rest, err)
		}
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "2" {
			t.Errorf("state lost: %+v", got)
		}
	})
}

func TestCancelKeepsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		mustRun(t, m, conn, "n += 1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		res, err := m.Run(ctx, conn, RunRequest{Code: "sleep"})
		if err != nil || res.Error == nil || res.Error.Kind != KindCancelled {
			t.Fatalf("got %+v, %v", res, err)
		}
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "2" {
			t.Errorf("state lost: %+v", got)
		}
	})
}

func TestRunsQueueInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		var mu sync.Mutex
		var got []string
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				res, err := m.Run(t.Context(), conn, RunRequest{Code: "n += 1"})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				got = append(got, value(res))
			})
		}
		wg.Wait()
		slices.Sort(got)
		if len(slices.Compact(got)) != 20 {
			t.Errorf("values %v, want 20 different ones", got)
		}
	})
}

// A queue that moves is not a busy session, however long the last call waits.
func TestQueueThatMovesIsNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) {
			base := o.Base
			o.Base = func(ctx context.Context) (Base, error) {
				time.Sleep(15 * time.Second) // a slow first start
				return base(ctx)
			}
		})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if res, err := m.Run(t.Context(), conn, RunRequest{Code: "sleep 6"}); err != nil || value(res) != "'slept'" {
					t.Errorf("got %+v, %v", res, err)
				}
			})
		}
		wg.Wait()
		// It is bounded all the same: no call waits longer than its answer may take.
		refused := make(chan time.Duration, 12)
		begin := time.Now()
		for range cap(refused) {
			wg.Go(func() {
				_, err := m.Run(t.Context(), conn, RunRequest{Code: "sleep 6"})
				if errors.As(err, new(*BusyError)) {
					refused <- time.Since(begin)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		close(refused)
		if len(refused) != 4 {
			t.Errorf("%d calls were refused, want the 4 that would wait for over 45 s", len(refused))
		}
		for after := range refused {
			if after < 44*time.Second || after > 46*time.Second {
				t.Errorf("refused after %s", after)
			}
		}
	})
}

func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		mustRun(t, m, conn, "n += 1")
		if _, err := m.WriteFile(t.Context(), conn, WriteRequest{Path: "a", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan RunResult)
		go func() {
			res, err := m.Run(context.WithoutCancel(t.Context()), conn, RunRequest{Code: "sleep"})
			if err != nil {
				t.Error(err)
			}
			ended <- res
		}()
		synctest.Wait()
		if _, err := m.Reset(t.Context(), conn, ResetRequest{KeepFiles: true}); err != nil {
			t.Fatal(err)
		}
		if res := <-ended; res.Error == nil || res.Error.Kind != KindCancelled || !res.Restarted {
			t.Errorf("the running cell: %+v", res)
		}
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" {
			t.Errorf("state after reset: %+v", got)
		}
		if _, err := m.ReadFile(t.Context(), conn, ReadRequest{Path: "a"}); err != nil {
			t.Errorf("a file that was to be kept: %v", err)
		}
		if _, err := m.Reset(t.Context(), conn, ResetRequest{}); err != nil {
			t.Fatal(err)
		}
		var refused *ArgumentError
		if _, err := m.ReadFile(t.Context(), conn, ReadRequest{Path: "a"}); !errors.As(err, &refused) {
			t.Errorf("a file after a full reset: %v", err)
		}
	})
}

// A sandbox that ends between calls is told by the next answer, once.
func TestLossBetweenCallsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		mustRun(t, m, conn, "n += 1")
		e.last().agent.stream.Close()
		time.Sleep(time.Minute)
		got := mustRun(t, m, conn, "n += 1")
		if value(got) != "1" || !got.Restarted || !strings.Contains(got.RestartReason, "variables and files") {
			t.Errorf("got %+v, want the loss told", got)
		}
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "2" || got.Restarted {
			t.Errorf("the answer after it: %+v", got)
		}
	})
}

// A supervisor that is stopped from outside is noticed without a call.
func TestMissedHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		mustRun(t, m, conn, "n += 1")
		a := e.last().agent
		a.mu.Lock()
		a.mute = true
		a.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" || !got.Restarted {
			t.Errorf("got %+v, want a new interpreter and the loss told", got)
		}
	})
}

func TestIdleSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		first := mustRun(t, m, conn, "n += 1")
		time.Sleep(40 * time.Minute)
		if n := e.alive(); n != 0 {
			t.Errorf("%d sandboxes live after the idle time", n)
		}
		_, err := m.Run(t.Context(), Ref{Connection: "conn", Handle: first.Session}, RunRequest{Code: "n += 1"})
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "idle") {
			t.Errorf("the old handle: %v", err)
		}
		got := mustRun(t, m, conn, "n += 1")
		if value(got) != "1" || !got.Restarted || !strings.Contains(got.RestartReason, "idle") {
			t.Errorf("the next run: %+v", got)
		}
	})
}

func TestSessionsAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		a := mustRun(t, m, Ref{Principal: "a", Connection: "1"}, "n += 1")
		if got := mustRun(t, m, Ref{Principal: "b", Connection: "1"}, "n += 1"); value(got) != "1" {
			t.Errorf("scope b sees scope a's state: %+v", got)
		}
		_, err := m.Run(t.Context(), Ref{Principal: "b", Connection: "1", Handle: a.Session}, RunRequest{Code: "n += 1"})
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("a foreign handle: %v, want ErrUnknown", err)
		}
		if got := mustRun(t, m, Ref{Principal: "a", Handle: a.Session}, "n += 1"); value(got) != "2" {
			t.Errorf("an own handle: %+v", got)
		}
	})
}

func TestTooManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		for i := range 4 {
			mustRun(t, m, Ref{Connection: fmt.Sprint(i)}, "n += 1")
		}
		if _, err := m.Run(t.Context(), Ref{Connection: "5"}, RunRequest{Code: "n += 1"}); !errors.Is(err, ErrTooMany) {
			t.Errorf("got %v, want ErrTooMany", err)
		}
	})
}

func TestStartFailureIsToldAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{fail: errTest}
		m := newTestManager(t, e, nil)
		var failed *SandboxError
		if _, err := m.Run(t.Context(), conn, RunRequest{Code: "n += 1"}); !errors.As(err, &failed) || !errors.Is(err, errTest) {
			t.Fatalf("got %v, want a SandboxError with its cause", err)
		}
		e.mu.Lock()
		e.fail = nil
		e.mu.Unlock()
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" {
			t.Errorf("after the cause is gone: %+v", got)
		}
	})
}

func TestWarmSandboxIsHandedOutHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, func(o *Options) { o.Warm = 1 })
		m.Prepare()
		synctest.Wait()
		if e.created.Load() != 1 {
			t.Fatalf("%d sandboxes made, want 1", e.created.Load())
		}
		e.last().agent.stream.Close() // dies while it waits
		synctest.Wait()
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" || got.Restarted {
			t.Errorf("got %+v, want a healthy sandbox and no notice", got)
		}
		synctest.Wait()
		if e.alive() != 2 {
			t.Errorf("%d sandboxes live, want the session's and one ready", e.alive())
		}
	})
}

func TestStopOnFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) { o.StopOnFailure = true })
		mustRun(t, m, conn, "n += 1")
		mustRun(t, m, conn, "raise")
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" || !got.Restarted {
			t.Errorf("got %+v, want a fresh session that says so", got)
		}
	})
}

func TestTimeoutArgument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		for _, d := range []time.Duration{-1, time.Hour} {
			var refused *ArgumentError
			if _, err := m.Run(t.Context(), conn, RunRequest{Code: "n += 1", Timeout: d}); !errors.As(err, &refused) {
				t.Errorf("timeout %s: %v, want ArgumentError", d, err)
			}
		}
		res, err := m.Run(t.Context(), conn, RunRequest{Code: "sleep", Timeout: 300 * time.Millisecond})
		if err != nil || res.ExecutionTime < 0.3 || res.ExecutionTime > 1 || res.Error.Kind != KindTimeout {
			t.Errorf("a limit below one second: %+v, %v", res, err)
		}
	})
}

func TestCloseEndsARunningCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		ended := make(chan RunResult, 1)
		go func() {
			res, err := m.Run(context.WithoutCancel(t.Context()), conn, RunRequest{Code: "sleep"})
			if err != nil {
				t.Error(err)
			}
			ended <- res
		}()
		synctest.Wait()
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if res := <-ended; res.Error == nil || res.Error.Kind != KindCancelled {
			t.Errorf("the running cell: %+v", res)
		}
		if _, err := m.Run(t.Context(), conn, RunRequest{Code: "n += 1"}); !errors.Is(err, ErrClosed) {
			t.Errorf("a run after Close: %v", err)
		}
	})
}

// The agent may find only with the next cell that the worker had ended.
func TestDeathBetweenCellsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, nil)
		got := mustRun(t, m, conn, "after a death")
		want := "the interpreter exited with code 3 between the calls; variables were gone before this call, files are kept"
		if !got.Success || value(got) != "1" || !got.Restarted || got.RestartReason != want {
			t.Errorf("got %+v, want the cell's value and %q", got, want)
		}
	})
}

// A sandbox that takes long to start is told when an answer is due, and goes
// on starting for the next call.
func TestSlowStartIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) {
			o.StartTimeout = 3 * time.Minute
			base := o.Base
			o.Base = func(ctx context.Context) (Base, error) {
				time.Sleep(100 * time.Second)
				return base(ctx)
			}
		})
		begun := time.Now()
		var busy *BusyError
		if _, err := m.Run(t.Context(), conn, RunRequest{Code: "n += 1"}); !errors.As(err, &busy) || busy.RunID != "" {
			t.Errorf("got %v, want that the sandbox is being started", err)
		}
		if took := time.Since(begun); took != 45*time.Second {
			t.Errorf("answered after %s, want answer_within", took)
		}
		time.Sleep(time.Minute)
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" || got.Restarted {
			t.Errorf("the next call: %+v", got)
		}
	})
}

// Waiting for a turn counts against answer_within.
func TestQueuedCallsAreAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &fakeEngine{}, func(o *Options) { o.AnswerWithin = 6 * time.Second })
		first, err := m.Run(t.Context(), conn, RunRequest{Code: "sleep 60", Timeout: 5 * time.Minute})
		if err != nil || first.Status != StatusRunning {
			t.Fatalf("got %+v, %v", first, err)
		}
		begun := time.Now()
		var busy *BusyError
		if _, err := m.Run(t.Context(), conn, RunRequest{Code: "n += 1"}); !errors.As(err, &busy) || busy.RunID != first.RunID {
			t.Errorf("got %v, want busy with %s", err, first.RunID)
		}
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("answered after %s, which is beyond answer_within", took)
		}
	})
}

// Libraries that take longer to load than the lease lasts do not cost the
// sandbox: the host is heard of meanwhile.
func TestLeaseIsKeptWhileLibrariesLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{load: 2 * lease}
		m := newTestManager(t, e, func(o *Options) { o.StartTimeout, o.AnswerWithin = 5*time.Minute, 5*time.Minute })
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" {
			t.Fatalf("got %+v", got)
		}
		a := e.last().agent
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.pings < 4 {
			t.Errorf("the agent heard of the host %d times in %s, the lease is %s", a.pings, a.load, lease)
		}
	})
}

// A reset that was given up before it is asked for changes nothing; afterwards
// it can only be told. Neither costs the files that were to be kept.
func TestResetGivenUp(t *testing.T) {
	for _, keep := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e := &fakeEngine{}
			m := newTestManager(t, e, nil)
			mustRun(t, m, conn, "n += 1")
			if _, err := m.WriteFile(t.Context(), conn, WriteRequest{Path: "f", Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := m.Reset(ctx, conn, ResetRequest{KeepFiles: keep}); !errors.Is(err, context.Canceled) {
				t.Errorf("Reset, cancelled before: %v", err)
			}
			if got := mustRun(t, m, conn, "n += 1"); value(got) != "2" || got.Restarted {
				t.Errorf("after a reset cancelled before: %+v", got)
			}

			info, err := m.Info(t.Context(), conn)
			if err != nil {
				t.Fatal(err)
			}
			e.byID(t, info.SandboxID).agent.resets = 2 * time.Second
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := m.Reset(ctx, conn, ResetRequest{KeepFiles: keep}); err != nil {
				t.Errorf("Reset, cancelled too late: %v", err)
			}
			got := mustRun(t, m, conn, "n += 1")
			if value(got) != "1" || !got.Restarted || !strings.Contains(got.RestartReason, "cancelled too late") {
				t.Errorf("after a reset cancelled too late: %+v", got)
			}
			_, err = m.ReadFile(t.Context(), conn, ReadRequest{Path: "f"})
			if kept := err == nil; kept != keep || e.created.Load() != 1 {
				t.Errorf("keep_files %v: the file: %v, %d sandboxes", keep, err, e.created.Load())
			}
		})
	}
}

// A sandbox in the making for the pool that is stuck holds no session up for
// long: it gets one of its own.
func TestStuckPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{load: 50 * time.Second}
		m := newTestManager(t, e, func(o *Options) { o.Warm = 1 })
		m.Prepare()
		synctest.Wait()
		e.load = 0
		begun := time.Now()
		mustRun(t, m, conn, "n += 1")
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}
