package session

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// world is what the test knows of a manager's sessions.
type world struct {
	m       *Manager
	holder  map[string]string // principal by handle
	count   map[string]int    // runs by handle
	handles []string
}

// draw makes a call's Ref, as hostile as may be: principals use the same
// connections and names, and pass each other's handles.
func (w *world) draw(rt *rapid.T) Ref {
	ref := Ref{
		Principal:  rapid.SampledFrom([]string{"alice", "bob", ""}).Draw(rt, "principal"),
		Connection: rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(rt, "connection"),
	}
	if ref.Principal == "" && ref.Connection != "" {
		ref.Connection = "pipe " + ref.Connection // the front end's ids are unguessable
	}
	choices := append([]string{"", "", "work", "play", "sbx_", "no name"}, w.handles...)
	ref.Handle = rapid.SampledFrom(choices).Draw(rt, "handle")
	return ref
}

// reached checks that a call of ref got no further than it may.
func (w *world) reached(rt *rapid.T, ref Ref, handle string, err error) bool {
	if owner, known := w.holder[ref.Handle]; known && owner != ref.Principal {
		if !errors.Is(err, ErrUnknown) || err.Error() != ErrUnknown.Error() {
			rt.Fatalf("%+v, a handle of %q: %v", ref, owner, err)
		}
	}
	if err != nil {
		return false
	}
	owner, known := w.holder[handle]
	if !known {
		w.holder[handle] = ref.Principal
		w.handles = append(w.handles, handle)
	} else if owner != ref.Principal {
		rt.Fatalf("%+v reached a session of %q", ref, owner)
	}
	return true
}

func (w *world) run(t *testing.T, rt *rapid.T) {
	ref := w.draw(rt)
	res, err := w.m.Run(t.Context(), ref, RunRequest{Code: "n += 1"})
	if !w.reached(rt, ref, res.Session, err) {
		return
	}
	w.count[res.Session]++
	if value(res) != strconv.Itoa(w.count[res.Session]) {
		rt.Fatalf("%+v: n is %s after %d runs", ref, value(res), w.count[res.Session])
	}
	if ref.Handle == "" && ref.Connection == "" && (w.count[res.Session] != 1 || res.Begun != res.Session) {
		rt.Fatalf("%+v shares a session: %+v", ref, res)
	}
	if IsHandle(ref.Handle) && res.Session != ref.Handle {
		rt.Fatalf("%+v leads to %s", ref, res.Session)
	}
}

func (w *world) look(t *testing.T, rt *rapid.T) {
	ref := w.draw(rt)
	info, err := w.m.Info(t.Context(), ref)
	if !w.reached(rt, ref, info.Session, err) {
		return
	}
	for _, other := range info.Others {
		if owner := w.holder[other.Session]; owner != ref.Principal {
			rt.Fatalf("%+v is told of a session of %q", ref, owner)
		}
	}
}

func (w *world) end(t *testing.T, rt *rapid.T) {
	ref := w.draw(rt)
	res, err := w.m.Reset(t.Context(), ref, ResetRequest{Close: true})
	w.reached(rt, ref, res.Session, err)
}

// A sequence of calls plays in a bubble of its own; what stops it must pass
// through the goroutine that rapid called.
func TestPrincipalsNeverMeet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var stopped any
		synctest.Test(t, func(t *testing.T) {
			e := &fakeEngine{}
			m := startTestManager(t, e, func(o *Options) { o.MaxSessions, o.MaxEach, o.QueueWait = 5, 3, time.Second })
			defer endTestManager(t, m, e)
			defer func() { stopped = recover() }()
			play(t, rt, &world{m: m, holder: map[string]string{}, count: map[string]int{}}, e)
		})
		if stopped != nil {
			panic(stopped)
		}
	})
}

func play(t *testing.T, rt *rapid.T, w *world, e *fakeEngine) {
	t.Helper()
	rt.Repeat(map[string]func(*rapid.T){
		"run":   func(rt *rapid.T) { w.run(t, rt) },
		"look":  func(rt *rapid.T) { w.look(t, rt) },
		"close": func(rt *rapid.T) { w.end(t, rt) },
		"leave": func(rt *rapid.T) {
			w.m.Disconnect(rapid.SampledFrom([]string{"c1", "c2", "pipe c1"}).Draw(rt, "connection"))
		},
		"pass": func(rt *rapid.T) {
			time.Sleep(time.Duration(rapid.IntRange(1, 40).Draw(rt, "minutes")) * time.Minute)
		},
		"": func(rt *rapid.T) { w.check(rt, e) },
	})
}

// check holds after every step.
func (w *world) check(rt *rapid.T, e *fakeEngine) {
	synctest.Wait()
	if n := e.alive(); n > w.m.opts.MaxSessions {
		rt.Fatalf("%d sandboxes live, at most %d may", n, w.m.opts.MaxSessions)
	}
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	each := map[string]int{}
	for handle, s := range w.m.sessions {
		if each[s.owner.principal+"/"+s.owner.connection]++; each[s.owner.principal+"/"+s.owner.connection] > w.m.opts.MaxEach && s.owner != (owner{}) {
			rt.Fatalf("%+v has %d sessions", s.owner, w.m.opts.MaxEach+1)
		}
		if !slices.Contains(w.handles, handle) {
			rt.Fatalf("nobody was told of %s", handle)
		}
	}
	if free := w.m.opts.MaxSessions - len(w.m.sessions); roomsFree(w.m) != free {
		rt.Fatalf("%d rooms free, want %d", roomsFree(w.m), free)
	}
}
