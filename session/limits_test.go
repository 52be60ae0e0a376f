package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func mustReset(t *testing.T, m *Manager, req ResetRequest) ResetResult {
	t.Helper()
	res, err := m.Reset(t.Context(), conn, req)
	if err != nil {
		t.Fatalf("Reset(%+v): %v", req, err)
	}
	return res
}

func infoLimits(t *testing.T, m *Manager) map[string]any {
	t.Helper()
	info, err := m.Info(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return info.Limits
}

func TestLimitsAreChecked(t *testing.T) {
	tests := []struct {
		limits Limits
		want   string
	}{
		{Limits{MemoryBytes: 2 << 30}, "limits.memory is 2g, but must be between 64m and 1g, the server's own limit (sandbox.memory)."},
		{Limits{MemoryBytes: 1 << 20}, "limits.memory is 1m, but must be between 64m and 1g, the server's own limit (sandbox.memory)."},
		{Limits{CPUs: 1.5}, "limits.cpus is 1.5, but must be between 0.01 and 1, the server's own limit (sandbox.cpus)."},
		{Limits{PIDs: 65}, "limits.pids is 65, but must be between 16 and 64, the server's own limit (sandbox.pids)."},
		{Limits{DiskBytes: 1<<30 + 1}, "limits.disk is 1073741825 bytes, but must be between 1m and 1g, the server's own limit (sandbox.disk)."},
		{Limits{Timeout: time.Hour}, "limits.timeout_seconds is 3600, but must be between 0.1 and 600, the server's own limit (run.max_timeout)."},
		{Limits{MaxOutput: 64 << 10}, "limits.max_output is 64KiB, but must be between 1KiB and 32KiB, the server's own limit (run.max_output)."},
	}
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		mustRun(t, m, conn, "n += 1")
		for _, tt := range tests {
			_, err := m.Reset(t.Context(), conn, ResetRequest{Limits: &tt.limits})
			var refused *ArgumentError
			if !errors.As(err, &refused) || refused.Message != tt.want {
				t.Errorf("%+v: %v, want %q", tt.limits, err, tt.want)
			}
		}
		if _, err := m.Reset(t.Context(), conn, ResetRequest{KeepFiles: true, Limits: &Limits{}}); err == nil || !strings.Contains(err.Error(), "keep_files") {
			t.Errorf("limits and keep_files together: %v", err)
		}
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "2" || e.created.Load() != 1 {
			t.Errorf("a refused request changed something: n = %s, %d sandboxes", value(got), e.created.Load())
		}
	})
}

// A session's limits reach the sandbox, the runs and session_info, outlive
// resets and lost sandboxes, and end with the next limits.
func TestLimitsOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, func(o *Options) { o.Warm = 1 })
		configured := infoLimits(t, m)
		mustRun(t, m, conn, "n += 1")
		other := Ref{Connection: "other"}
		mustRun(t, m, other, "n += 1")

		own := Limits{MemoryBytes: 256 << 20, CPUs: 0.5, DiskBytes: 16 << 20, Timeout: 5 * time.Second, MaxOutput: 2 << 10}
		res := mustReset(t, m, ResetRequest{Limits: &own})
		want := sandbox.Limits{MemoryBytes: 256 << 20, CPUs: 0.5, PIDs: 64, DiskBytes: 16 << 20}
		checkOwn := func(when string) {
			t.Helper()
			info, err := m.Info(t.Context(), conn)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, e.byID(t, info.SandboxID).spec.Limits); diff != "" {
				t.Errorf("%s: the sandbox's limits (-want +got):\n%s", when, diff)
			}
			shown := map[string]any{
				"memory_bytes": want.MemoryBytes, "cpus": want.CPUs, "pids": want.PIDs, "disk_bytes": want.DiskBytes,
				"timeout_seconds": 5.0, "max_timeout_seconds": 5.0, "max_output_bytes": int64(2 << 10), "network": "none",
			}
			if diff := cmp.Diff(shown, info.Limits); diff != "" {
				t.Errorf("%s: session_info (-want +got):\n%s", when, diff)
			}
		}
		checkOwn("after the reset")
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" || got.Restarted {
			t.Errorf("after the reset: %+v", got)
		}
		if got := mustRun(t, m, other, "n += 1"); value(got) != "2" {
			t.Errorf("another session: %+v", got)
		}
		start := time.Now()
		if got := mustRun(t, m, conn, "sleep"); got.ExitCode != exitTimeout || time.Since(start) > 10*time.Second {
			t.Errorf("a run without a limit of its own: %+v after %s", got, time.Since(start))
		}
		var refused *ArgumentError
		if _, err := m.Run(t.Context(), conn, RunRequest{Code: "n += 1", Timeout: 6 * time.Second}); !errors.As(err, &refused) ||
			!strings.Contains(refused.Message, "at most 5 (the limit that session_reset set") {
			t.Errorf("a run above the session's limit: %v", err)
		}
		mustReset(t, m, ResetRequest{KeepFiles: true})
		checkOwn("after a plain reset")
		if err := e.byID(t, res.SandboxID).agent.stream.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mustRun(t, m, conn, "n += 1")
		checkOwn("after a lost sandbox")

		mustReset(t, m, ResetRequest{Limits: &Limits{}})
		if diff := cmp.Diff(configured, infoLimits(t, m)); diff != "" {
			t.Errorf("after empty limits (-configured +got):\n%s", diff)
		}
	})
}

// A run under way ends with the sandbox that new limits replace.
func TestLimitsEndTheRunUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		ended := make(chan RunResult)
		go func() {
			res, err := m.Run(context.WithoutCancel(t.Context()), conn, RunRequest{Code: "sleep"})
			if err != nil {
				t.Error(err)
			}
			ended <- res
		}()
		synctest.Wait()
		mustReset(t, m, ResetRequest{Limits: &Limits{PIDs: 32}})
		if res := <-ended; res.Error == nil || res.Error.Kind != KindCancelled || !res.Restarted || res.Error.Message != "The run was ended by session_reset." {
			t.Errorf("the run under way: %+v, %+v", res, res.Error)
		}
		synctest.Wait()
		if n := e.alive(); n != 1 {
			t.Errorf("%d sandboxes are alive, want the new one", n)
		}
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "1" || got.Restarted {
			t.Errorf("the next run: %+v", got)
		}
	})
}

// When no sandbox starts under new limits, the old one with its state stays.
func TestLimitsThatCannotBeHadChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		mustRun(t, m, conn, "n += 1")
		before := infoLimits(t, m)
		e.fail = errTest
		_, err := m.Reset(t.Context(), conn, ResetRequest{Limits: &Limits{PIDs: 32}})
		var failed *SandboxError
		if !errors.As(err, &failed) || !strings.Contains(failed.Message, "The session is as it was") {
			t.Errorf("Reset: %v", err)
		}
		e.fail = nil
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "2" || got.Restarted {
			t.Errorf("the next run: %+v", got)
		}
		if diff := cmp.Diff(before, infoLimits(t, m)); diff != "" {
			t.Errorf("limits (-before +after):\n%s", diff)
		}
	})
}

// A reset that was given up while its sandbox starts changes nothing, then or
// later, and leaves no sandbox.
func TestLimitsGivenUpChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		m := newTestManager(t, e, nil)
		mustRun(t, m, conn, "n += 1")
		before := infoLimits(t, m)
		e.setSlow(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Reset(ctx, conn, ResetRequest{Limits: &Limits{PIDs: 32}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Reset: %v", err)
		}
		time.Sleep(time.Minute)
		if got := mustRun(t, m, conn, "n += 1"); value(got) != "2" || got.Restarted {
			t.Errorf("the next run: %+v", got)
		}
		if diff := cmp.Diff(before, infoLimits(t, m)); diff != "" {
			t.Errorf("limits (-before +after):\n%s", diff)
		}
		if n := e.alive(); n != 1 {
			t.Errorf("%d sandboxes are alive, want the old one", n)
		}
	})
}

// A sandbox that is being made when new limits come is nobody's; whoever
// waits for it gets the new one.
func TestLimitsDuringTheFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{slow: 10 * time.Second}
		m := newTestManager(t, e, nil)
		first := make(chan RunResult)
		go func() {
			res, err := m.Run(context.WithoutCancel(t.Context()), conn, RunRequest{Code: "n += 1"})
			if err != nil {
				t.Error(err)
			}
			first <- res
		}()
		synctest.Wait()
		e.setSlow(0)
		res := mustReset(t, m, ResetRequest{Limits: &Limits{PIDs: 32}})
		if got := <-first; value(got) != "1" {
			t.Errorf("the run that waited: %+v", got)
		}
		if got := e.byID(t, res.SandboxID).spec.Limits.PIDs; got != 32 || e.alive() != 1 {
			t.Errorf("pids %d, %d sandboxes alive", got, e.alive())
		}
	})
}
