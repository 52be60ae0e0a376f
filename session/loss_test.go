package session

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// A loss that no answer has told is told by the session's next run: one that
// nobody read, one that another loss followed, one that a reset did not ask for.
func TestLossIsTold(t *testing.T) {
	abandon := func(code string) func(*testing.T, *Manager, *fakeEngine) {
		return func(t *testing.T, m *Manager, _ *fakeEngine) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := m.Run(ctx, conn, RunRequest{Code: code}); err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Second)
		}
	}
	kill := func(_ *testing.T, _ *Manager, e *fakeEngine) {
		e.last().finish(sandbox.Exit{Code: 137, Reason: "it was killed"})
		synctest.Wait()
	}
	keepFiles := func(t *testing.T, m *Manager, _ *fakeEngine) {
		if _, err := m.Reset(t.Context(), conn, ResetRequest{KeepFiles: true}); err != nil {
			t.Error(err)
		}
	}
	run := func(code string, limit time.Duration) func(*testing.T, *Manager, *fakeEngine) {
		return func(t *testing.T, m *Manager, _ *fakeEngine) {
			if _, err := m.Run(t.Context(), conn, RunRequest{Code: code, Timeout: limit}); err != nil {
				t.Error(err)
			}
		}
	}
	pass := func(*testing.T, *Manager, *fakeEngine) { time.Sleep(2 * time.Minute) }
	type steps []func(*testing.T, *Manager, *fakeEngine)
	for name, test := range map[string]struct {
		steps steps
		code  string // of the run that tells
		tells []string
	}{
		"a cancelled call's interpreter": {steps{abandon("stubborn")}, "n += 1", []string{"could not be interrupted", "variables are gone"}},
		"a cancelled call's sandbox":     {steps{abandon("wedge")}, "n += 1", []string{"files of the workspace are gone"}},
		"one that nobody waited for":     {steps{run("stubborn", time.Minute), pass}, "n += 1", []string{"could not be interrupted"}},
		"files before a reset that keeps": {
			steps{kill, keepFiles}, "n += 1", []string{"it was killed; variables and files of the workspace are gone"},
		},
		"files before a crash":      {steps{kill}, "segv", []string{"files of the workspace are gone; then", "SIGSEGV"}},
		"nothing after it was read": {steps{run("segv", 0)}, "n += 1", nil},
		"nothing after a reset": {steps{abandon("stubborn"), func(t *testing.T, m *Manager, _ *fakeEngine) {
			if _, err := m.Reset(t.Context(), conn, ResetRequest{}); err != nil {
				t.Error(err)
			}
		}}, "n += 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &fakeEngine{}
				m := newTestManager(t, e, nil)
				mustRun(t, m, conn, "n += 1")
				for _, step := range test.steps {
					step(t, m, e)
				}
				got := mustRun(t, m, conn, test.code)
				if got.Restarted != (test.tells != nil) {
					t.Errorf("restarted is %t: %q", got.Restarted, got.RestartReason)
				}
				for _, part := range test.tells {
					if !strings.Contains(got.RestartReason, part) {
						t.Errorf("it does not tell %q: %q", part, got.RestartReason)
					}
				}
				if again := mustRun(t, m, conn, "n += 1"); again.Restarted {
					t.Errorf("it is told twice: %q", again.RestartReason)
				}
			})
		})
	}
}
