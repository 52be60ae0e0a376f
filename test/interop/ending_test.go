package interop

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Bounds of the server's ends.
const (
	endWithin  = 5 * time.Second
	goneWithin = 10 * time.Second
)

// hostile code leaves children that no polite signal ends, nor the end of
// their parent, their session or their output.
const hostile = `
import os, signal, time

def stubborn():
    os.setsid()
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_IGN)
            except OSError:
                pass
    if os.fork() == 0:
        os.setsid()
    while True:
        time.sleep(1)

for _ in range(4):
    if os.fork() == 0:
        stubborn()
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
`

// A state is what the server does when it ends.
type state struct {
	name string
	code string // "" is idle
}

func states() []state {
	return []state{
		{"idle", ""},
		{"busy", "while True: pass"},
		{"hostile", hostile},
	}
}

// An end is how the server is made to end.
type end struct {
	name  string
	cause func(*testing.T, *server)
	clean bool // it must end well, and in time
}

func ends() []end {
	return []end{
		{"kill", func(t *testing.T, s *server) { s.signal(t, syscall.SIGKILL) }, false},
		{"SIGTERM", func(t *testing.T, s *server) { s.signal(t, syscall.SIGTERM) }, true},
		{"EOF", func(t *testing.T, s *server) {
			if err := s.client.Close(); err != nil {
				t.Fatal(err)
			}
		}, true},
	}
}

// Whatever it does and however it ends, nothing is left.
func TestEnds(t *testing.T) {
	needProc(t)
	onEachEngine(t, func(t *testing.T, lab lab) {
		for _, end := range ends() {
			t.Run(end.name, func(t *testing.T) {
				for _, state := range states() {
					t.Run(state.name, func(t *testing.T) {
						t.Parallel() // most is waiting
						lab.endIn(t, end, state)
					})
				}
			})
		}
	})
}

func (l lab) endIn(t *testing.T, end end, state state) {
	t.Helper()
	s := l.start(t)
	if got := s.python(t, "6 * 7"); got.Result == nil || *got.Result != "42" {
		t.Fatalf("the server does not work: %+v", got)
	}
	s.occupy(t, state.code)
	s.look(t)
	end.cause(t, s)
	if end.clean {
		s.endsWithin(t, endWithin)
	}
	s.nothingLeft(t, goneWithin)
}

// The end of one server is nothing to another.
func TestTwoServers(t *testing.T) {
	needProc(t)
	onEachEngine(t, func(t *testing.T, lab lab) {
		dies, lives := lab.start(t), lab.start(t)
		dies.python(t, "kept = 'dies'")
		lives.python(t, "kept = 'lives'")
		dies.look(t)
		lives.look(t)
		dies.signal(t, syscall.SIGKILL)
		dies.nothingLeft(t, goneWithin)
		if got := lives.python(t, "kept"); got.Result == nil || *got.Result != "'lives'" || got.Restarted {
			t.Errorf("the other server was harmed: %+v", got)
		}
		// A third one sweeps what dead servers left, and nothing else.
		third := lab.start(t)
		third.python(t, "1")
		if got := lives.python(t, "kept"); got.Result == nil || *got.Result != "'lives'" || got.Restarted {
			t.Errorf("the sweep of a new server harmed a living one: %+v", got)
		}
	})
}

// occupy starts code that does not end, and returns when it runs.
func (s *server) occupy(t *testing.T, code string) {
	t.Helper()
	if code == "" {
		return
	}
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := s.call(ctx, "python_run", map[string]any{"code": code, "timeout_seconds": 300})
		failed <- err
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case err := <-failed:
		t.Fatalf("the code ended too early: %v", errors.Join(err))
	case <-time.After(2 * time.Second):
	}
}

func needProc(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("what is left is looked for in /proc")
	}
}
