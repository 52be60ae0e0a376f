//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hostile outlives what it can: every signal is ignored, in sessions of its own.
const hostile = `
import os, signal, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
`

// A server that is killed at any moment leaves nothing.
func TestKilledAtRandomMoments(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		moments := rand.New(rand.NewPCG(seed, 0))
		for i := range *given.kills {
			code := []string{"", "while True: pass", hostile, "open('a', 'w').write('x' * 9000000)"}[i%4]
			delay := time.Duration(moments.IntN(2500)) * time.Millisecond
			t.Run(fmt.Sprintf("%d after %v", i, delay), func(t *testing.T) {
				t.Parallel() // most is waiting
				c := l.start(t, options{warm: i % 2})
				if code != "" {
					if _, err := c.BeginTool("python_run", map[string]any{"code": code}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(delay)
				c.look(t)
				if err := c.Kill(); err != nil {
					t.Fatal(err)
				}
				c.nothingLeft(t)
			})
		}
	})
}

// A session whose interpreter ends again and again goes on, keeps its files
// and costs the server nothing that lasts.
func TestRestartStorm(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		c := l.start(t, options{})
		c.prepare(t)
		before, _ := used(t, c.PID())
		for i := range *given.storm {
			a := c.run(t, fmt.Sprintf("import os; os._exit(%d)", i%256))
			if a.Object.Error == nil || a.Object.Error.Kind != "died" || !a.Object.Restarted || a.Object.ExitCode != i%256 {
				t.Fatalf("end %d: %s", i, a.Line)
			}
		}
		c.gives(t, "6 * 7", "42")
		c.gives(t, "open('kept.txt').read()", "'kept'")
		if after, _ := used(t, c.PID()); after > before+4 {
			t.Errorf("the server had %d descriptors and has %d", before, after)
		}
	})
}

// A sandbox that ended while it was kept ready is handed to nobody.
func TestPoisonedPool(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
			t.Run(name, func(t *testing.T) {
				c := l.start(t, options{warm: 1})
				id := l.readySandbox(t, c)
				c.watch.Note(id)
				switch {
				case l.engine == "gvisor":
					signal(t, sig, processes(t, "runsc-sandbox", id))
				case sig == syscall.SIGSTOP:
					l.docker(t, "pause", id)
				default:
					l.docker(t, "kill", id)
				}
				// One that was still being made is waited for, and may hold up a call.
				if told := c.works(t); strings.Contains(told, "restarted") {
					t.Errorf("a loss is told that was none: %s", told)
				}
			})
		}
	})
}

// A server that may have few descriptors says so, and goes on when some are
// free again. gVisor cannot work with few at all.
func TestFewDescriptors(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		c := l.start(t, options{limit: "ulimit -n 64"})
		if l.engine == "gvisor" {
			if a := c.run(t, "1"); !a.Refused() || !strings.Contains(a.Text(), "ulimit -n") {
				t.Errorf("with 64 descriptors: %s", a.Text())
			}
			return
		}
		c.prepare(t)
		worked, refused := 1, 0
		for i := range 14 {
			a := c.call(t, "python_run", map[string]any{"code": "6 * 7", "session": fmt.Sprintf("s%d", i)})
			clear(t, a)
			if value(a) == "42" {
				worked++
			} else if refused++; refused == 1 {
				t.Logf("the first refusal: %s", a.Text())
			}
		}
		t.Logf("%d sessions work, %d were refused", worked, refused)
		for i := range 14 {
			a := c.call(t, "session_reset", map[string]any{"session": fmt.Sprintf("s%d", i), "close": true})
			clear(t, a)
		}
		c.lostOrKept(t, c.works(t))
		a := c.call(t, "python_run", map[string]any{"code": "6 * 7", "session": "again"})
		if value(a) != "42" {
			t.Errorf("a new session, when descriptors are free again: %s", a.Text())
		}
	})
}

// Many calls at one time are answered, one after the other or with a refusal.
func TestBurst(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		c := l.start(t, options{})
		c.gives(t, "n = 0; n", "0")
		const calls = 50
		var ran sync.Map
		var group sync.WaitGroup
		for range calls {
			group.Go(func() {
				a, err := c.Tool(t.Context(), "python_run", map[string]any{"code": "n += 1\nn"})
				switch {
				case err != nil:
					t.Error(err)
				case value(a) != "":
					if _, twice := ran.LoadOrStore(value(a), true); twice {
						t.Errorf("two calls counted %s", value(a))
					}
				case !strings.Contains(a.Text(), "busy"):
					t.Errorf("neither run nor refused: %s", a.Text())
				}
			})
		}
		group.Wait()
		count := 0
		ran.Range(func(any, any) bool { count++; return true })
		c.gives(t, "n", fmt.Sprint(count))
	})
}
