package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// A reference is all that a client may expect of its session: what must be
// there, and which losses an answer has to tell.
type reference struct {
	m *Manager
	e *fakeEngine

	host string // a file that can be exposed

	lives   bool              // there is a session
	n       int               // the variable
	files   map[string]string // the workspace
	exposed bool

	owed    bool // a loss must be told by the next run
	excused bool // and may be told again, as an answer may not have said all
	filesGo bool // what is owed concerns files too
}

// forgets: the interpreter has been lost, and the files too, if gone.
func (r *reference) forgets(gone bool) {
	r.n = 0
	r.owed = true
	if gone {
		clear(r.files)
		r.filesGo = true
	}
}

// ends: the session is no more; told says that its client asked for that.
func (r *reference) ends(told bool) {
	if !r.lives {
		return
	}
	r.forgets(true)
	r.lives, r.exposed = false, false
	if told {
		r.settled()
	}
}

// settled: nothing is owed any more.
func (r *reference) settled() { r.owed, r.excused, r.filesGo = false, false, false }

// heard checks whether an answer tells what it has to, and no more.
func (r *reference) heard(rt *rapid.T, res RunResult) {
	r.lives = true
	switch {
	case r.owed && !res.Restarted:
		rt.Fatalf("a loss of state was not told: %+v", res)
	case r.filesGo && !strings.Contains(res.RestartReason, "files of the workspace are gone") && !strings.Contains(res.RestartReason, "session."):
		rt.Fatalf("a loss of files was not told: %q", res.RestartReason)
	case !r.owed && !r.excused && res.Restarted:
		rt.Fatalf("a loss was told that was none: %q", res.RestartReason)
	}
	r.settled()
}

// run runs code to its end.
func (r *reference) run(t *testing.T, rt *rapid.T, code string, limit time.Duration) (RunResult, bool) {
	t.Helper()
	res, err := r.m.Run(t.Context(), conn, RunRequest{Code: code, Timeout: limit})
	if err != nil {
		r.failed(rt, err)
		return RunResult{}, false
	}
	return res, true
}

// failed checks the error of a call that had to work, unless its sandbox has
// just been lost and it says so.
func (r *reference) failed(rt *rapid.T, err error) {
	lost, ok := errors.AsType[*SandboxError](err)
	if !ok || !lost.Lost || !r.owed {
		rt.Fatalf("a call failed: %v", err)
	}
	r.lives, r.excused = true, true
}

func (r *reference) count(t *testing.T, rt *rapid.T) {
	res, ok := r.run(t, rt, "n += 1", 0)
	if !ok {
		return
	}
	r.heard(rt, res)
	if r.n++; value(res) != strconv.Itoa(r.n) {
		rt.Fatalf("n is %s, must be %d", value(res), r.n)
	}
}

// crash runs code that ends badly in one of many ways.
func (r *reference) crash(t *testing.T, rt *rapid.T) {
	crashes := map[string]struct{ vars, files bool }{
		"raise": {}, "sleep": {},
		"segv": {vars: true}, "oom": {vars: true}, "stubborn": {vars: true},
		"vanish": {vars: true, files: true}, "wedge": {vars: true, files: true}, "forge": {vars: true, files: true},
	}
	code := rapid.SampledFrom(slices.Sorted(maps.Keys(crashes))).Draw(rt, "code")
	res, ok := r.run(t, rt, code, 5*time.Second)
	if !ok {
		return
	}
	if res.Success || res.Error == nil {
		rt.Fatalf("%s: %+v", code, res)
	}
	if effect := crashes[code]; effect.vars {
		r.forgets(effect.files)
	}
	r.heard(rt, res)
}

// between ends the interpreter when nothing runs, as a thread may that a cell
// left behind.
func (r *reference) between(_ *rapid.T) {
	if sb := r.sandbox(); sb != nil {
		sb.agent.die()
		r.forgets(false)
	}
}

// kill ends the sandbox from outside, when nothing runs or while code does.
func (r *reference) kill(t *testing.T, rt *rapid.T) {
	if rapid.Bool().Draw(rt, "busy") {
		r.count(t, rt)
		sb := r.sandbox()
		if sb == nil {
			return
		}
		time.AfterFunc(time.Second, func() { sb.finish(sandbox.Exit{Code: 137, Reason: "it was killed"}) })
		if res, ok := r.run(t, rt, "sleep", 0); ok {
			r.forgets(true)
			r.heard(rt, res)
		}
		return
	}
	if sb := r.sandbox(); sb != nil {
		sb.finish(sandbox.Exit{Code: 137, Reason: "it was killed"})
		r.forgets(true)
	}
}

// sandbox is the session's, if it lives.
func (r *reference) sandbox() *fakeSandbox {
	if r.e.alive() == 0 || !r.lives {
		return nil
	}
	return r.e.last()
}

// abandon gives up a call while its code runs; nobody reads its result.
func (r *reference) abandon(t *testing.T, rt *rapid.T) {
	code := rapid.SampledFrom([]string{"sleep", "stubborn", "wedge"}).Draw(rt, "code")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	res, err := r.m.Run(ctx, conn, RunRequest{Code: code})
	var lost *SandboxError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &lost) && r.owed:
		return // it never began: the run before still holds the turn
	case err != nil:
		rt.Fatalf("cancelled: %v", err)
	case res.Error == nil || res.Error.Kind != KindCancelled:
		rt.Fatalf("cancelled: %+v", res)
	}
	r.lives = true
	time.Sleep(time.Duration(rapid.IntRange(0, 9).Draw(rt, "seconds")) * time.Second)
	if code != "sleep" {
		r.forgets(code != "stubborn")
	}
}

// outlast runs code for longer than an answer may take, and then waits for it,
// stops it, or never asks again.
func (r *reference) outlast(t *testing.T, rt *rapid.T) {
	code := rapid.SampledFrom([]string{"sleep 60", "stubborn"}).Draw(rt, "code")
	res, ok := r.run(t, rt, code, 70*time.Second)
	if !ok {
		return
	}
	if res.Status != StatusRunning {
		rt.Fatalf("%s: %+v", code, res)
	}
	r.lives = true
	then := rapid.SampledFrom([]string{"wait", "stop", "leave"}).Draw(rt, "then")
	if then == "leave" {
		time.Sleep(2 * time.Minute)
	} else {
		rest, err := r.m.Wait(t.Context(), conn, WaitRequest{RunID: res.RunID, Interrupt: then == "stop"})
		if err != nil || rest.Status != StatusDone || rest.Success != (code == "sleep 60" && then == "wait") {
			rt.Fatalf("python_wait: %+v, %v", rest, err)
		}
		res = rest
	}
	if code == "stubborn" {
		r.forgets(false)
	}
	if then != "leave" {
		r.heard(rt, res)
	}
}

// together makes several calls at once.
func (r *reference) together(t *testing.T, rt *rapid.T) {
	if r.owed {
		r.count(t, rt)
	}
	var values []string
	calls := rapid.IntRange(2, 5).Draw(rt, "calls")
	answers := make(chan RunResult, calls)
	for range calls {
		go func() {
			res, err := r.m.Run(context.WithoutCancel(t.Context()), conn, RunRequest{Code: "n += 1"})
			if err != nil {
				t.Error(err)
			}
			answers <- res
		}()
	}
	var want []string
	for i := range calls {
		res := <-answers
		r.heard(rt, res)
		values, want = append(values, value(res)), append(want, strconv.Itoa(r.n+i+1))
	}
	slices.Sort(values)
	slices.Sort(want)
	if !slices.Equal(values, want) {
		rt.Fatalf("calls at once counted %v, must be %v", values, want)
	}
	r.n += calls
}

// reset gives a fresh interpreter, maybe while code runs.
func (r *reference) reset(t *testing.T, rt *rapid.T) {
	req := ResetRequest{KeepFiles: rapid.Bool().Draw(rt, "keep files")}
	if rapid.Bool().Draw(rt, "busy") {
		r.count(t, rt) // the run before may still be on its way out
		ended := make(chan RunResult, 1)
		go func() {
			res, err := r.m.Run(context.WithoutCancel(t.Context()), conn, RunRequest{Code: "sleep"})
			if err != nil {
				t.Error(err)
			}
			ended <- res
		}()
		defer func() {
			if res := <-ended; res.Error == nil || res.Error.Kind != KindCancelled || !res.Restarted {
				rt.Fatalf("a run that a reset ended: %+v", res)
			}
		}()
		time.Sleep(time.Second)
	}
	if _, err := r.m.Reset(t.Context(), conn, req); err != nil {
		r.failed(rt, err)
		r.forgets(true)
		return
	}
	r.lives, r.n = true, 0
	switch {
	case !req.KeepFiles:
		clear(r.files)
		r.settled()
	case r.filesGo: // it kept what was there; the loss before is still owed
	default:
		r.owed, r.excused = false, r.owed || r.excused
	}
}

func (r *reference) close(t *testing.T, rt *rapid.T) {
	_, err := r.m.Reset(t.Context(), conn, ResetRequest{Close: true})
	if _, none := errors.AsType[*ArgumentError](err); err != nil && (r.lives || !none) {
		rt.Fatalf("close: %v", err)
	}
	r.ends(true)
}

// pass lets time pass, after which the session may have been idle for too long.
func (r *reference) pass(t *testing.T, rt *rapid.T) {
	minutes, most := rapid.SampledFrom([]int{1, 15, 40}).Draw(rt, "minutes"), 30
	if rapid.Bool().Draw(rt, "disconnected") {
		r.m.Disconnect(conn.Connection)
		most = 10
	}
	time.Sleep(time.Duration(minutes) * time.Minute)
	if minutes > most {
		r.ends(false)
		return
	}
	r.list(t, rt) // the client is back
}

// Whatever a client does and whatever befalls its session, no answer is wrong
// and no loss remains untold.
func TestSessionAgainstModel(t *testing.T) {
	host := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(host, []byte("exposed"), 0o600); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		var stopped any
		synctest.Test(t, func(t *testing.T) {
			e := &fakeEngine{}
			m := startTestManager(t, e, func(o *Options) { o.Roots = []HostRoot{{Path: filepath.Dir(host)}} })
			defer endTestManager(t, m, e)
			defer func() { stopped = recover() }()
			r := &reference{m: m, e: e, host: host, files: map[string]string{}}
			r.play(t, rt)
		})
		// rapid takes failures for the same by their traces, and it stops some
		// sequences itself: these need a line of their own.
		switch fmt.Sprintf("%T", stopped) {
		case "<nil>":
		case "rapid.invalidData":
			panic(stopped)
		default:
			panic(stopped)
		}
	})
}

func (r *reference) play(t *testing.T, rt *rapid.T) {
	t.Helper()
	with := func(f func(*testing.T, *rapid.T)) func(*rapid.T) { return func(rt *rapid.T) { f(t, rt) } }
	rt.Repeat(map[string]func(*rapid.T){
		"count": with(r.count), "count again": with(r.count), "together": with(r.together),
		"crash": with(r.crash), "between": r.between, "kill": with(r.kill),
		"abandon": with(r.abandon), "outlast": with(r.outlast),
		"write": with(r.write), "read": with(r.read), "list": with(r.list), "expose": with(r.expose),
		"reset": with(r.reset), "close": with(r.close), "info": with(r.info), "pass": with(r.pass),
		"": func(rt *rapid.T) {
			synctest.Wait() // so that a sequence plays the same again
			if n := r.e.alive(); n > 2 {
				rt.Fatalf("%d sandboxes live for one session", n)
			}
		},
	})
}
