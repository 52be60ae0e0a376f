//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/mcptest"
)

// A caller is one client of a server, whatever the transport.
type caller interface {
	Tool(ctx context.Context, name string, args map[string]any) (*mcptest.Answer, error)
}

// A tally counts what clients saw.
type tally struct {
	mu      sync.Mutex
	answers map[string]int           // by what was done; guarded by mu
	slowest map[string]time.Duration // guarded by mu
	wrong   []string                 // guarded by mu
}

func (s *tally) note(what string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[what]++
	s.slowest[what] = max(s.slowest[what], took)
}

func (s *tally) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// An actor uses one session and knows what must be in it.
type actor struct {
	name    string
	server  caller
	session string // "": the connection's own
	chance  *rand.Rand
	seen    *tally

	n     int
	files map[string]string
}

// call gives nil when there was no answer, which is a fault of its own. A first
// sandbox that is long in the making, as on a busy machine, is asked for again.
func (a *actor) call(what, tool string, args map[string]any) *mcptest.Answer {
	answer := a.once(what, tool, args)
	for begun := time.Now(); answer != nil && strings.Contains(answer.Text(), "still being started") && time.Since(begun) < worksWithin; {
		answer = a.once("asked again", tool, args)
	}
	return answer
}

func (a *actor) once(what, tool string, args map[string]any) *mcptest.Answer {
	if a.session != "" {
		args["session"] = a.session
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*answerWithin)
	defer cancel()
	begun := time.Now()
	answer, err := a.server.Tool(ctx, tool, args)
	a.seen.note(what, time.Since(begun))
	if err != nil {
		a.seen.fault("%s, %s: %v", a.name, what, err)
		return nil
	}
	return answer
}

func (a *actor) run(what, code string, limit float64) *mcptest.Answer {
	return a.call(what, "python_run", map[string]any{"code": code, "timeout_seconds": limit})
}

// told checks that a loss is told when there was one, and only then.
func (a *actor) told(what string, answer *mcptest.Answer, lost bool) {
	if answer.Object.Restarted != lost {
		a.seen.fault("%s, %s: restarted is %t: %s", a.name, what, answer.Object.Restarted, answer.Line)
	}
}

// honest does one of the things that people do, and checks the answer.
func (a *actor) honest() {
	steps := []func(){a.count, a.count, a.count, a.write, a.read, a.list, a.raise, a.exit, a.loop, a.reset}
	steps[a.chance.IntN(len(steps))]()
}

func (a *actor) count() {
	if answer := a.run("count", "n = globals().get('n', 0) + 1\nn", 20); answer != nil {
		a.n++
		if value(answer) != fmt.Sprint(a.n) {
			a.seen.fault("%s: n is %q, must be %d: %s", a.name, value(answer), a.n, answer.Text())
		}
		a.told("count", answer, false)
	}
}

func (a *actor) write() {
	name, text := fmt.Sprintf("f%d.txt", a.chance.IntN(4)), strings.Repeat("x", a.chance.IntN(5000))
	if answer := a.call("write", "file_write", map[string]any{"path": name, "content": text}); answer != nil {
		a.files[name] = text
		if answer.Refused() {
			a.seen.fault("%s, write: %s", a.name, answer.Text())
		}
	}
}

func (a *actor) read() {
	name := fmt.Sprintf("f%d.txt", a.chance.IntN(4))
	text, there := a.files[name]
	if answer := a.call("read", "file_read", map[string]any{"path": name}); answer != nil {
		if answer.Refused() == there || there && text != "" && !strings.Contains(answer.Text(), text) {
			a.seen.fault("%s: %s is there: %t, has %d bytes; got %.200s", a.name, name, there, len(text), answer.Text())
		}
	}
}

func (a *actor) list() {
	answer := a.run("list", "import os\nsorted((f, os.path.getsize(f)) for f in os.listdir() if f.endswith('.txt'))", 20)
	if answer == nil {
		return
	}
	var want []string
	for i := range 4 {
		if text, there := a.files[fmt.Sprintf("f%d.txt", i)]; there {
			want = append(want, fmt.Sprintf("('f%d.txt', %d)", i, len(text)))
		}
	}
	if value(answer) != "["+strings.Join(want, ", ")+"]" {
		a.seen.fault("%s: files are %s, must be %v", a.name, value(answer), want)
	}
	a.told("list", answer, false)
}

// fails runs code that must fail in one way.
func (a *actor) fails(what, code string, limit float64, kind string, lost bool) {
	answer := a.run(what, code, limit)
	if answer == nil {
		return
	}
	if answer.Object.Error == nil || answer.Object.Error.Kind != kind {
		a.seen.fault("%s, %s: %s", a.name, what, answer.Text())
	}
	a.told(what, answer, lost)
	if lost {
		a.n = 0
	}
}

func (a *actor) raise() { a.fails("raise", "1 / 0", 20, "exception", false) }
func (a *actor) exit()  { a.fails("exit", "import os; os._exit(3)", 20, "died", true) }
func (a *actor) loop()  { a.fails("loop", "while True: pass", 1, "timeout", false) }

func (a *actor) reset() {
	keep := a.chance.IntN(2) == 0
	if answer := a.call("reset", "session_reset", map[string]any{"keep_files": keep}); answer != nil {
		if answer.Refused() {
			a.seen.fault("%s, reset: %s", a.name, answer.Text())
		}
		if a.n = 0; !keep {
			a.files = map[string]string{}
		}
	}
}

// attacks are what a hostile client runs.
func attacks() []string {
	return []string{
		"import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
		"import sys\nwhile True: sys.stdout.write('x' * 100000)",
		"import os\nfor fd in range(3, 400):\n    try: os.write(fd, b'\\0\\0\\0\\2\\0\\0\\0\\0{}')\n    except OSError: pass\nos.closerange(0, 400)",
		"import os, signal\nos.kill(-1, signal.SIGKILL)",
		"import os, signal\nos.kill(1, signal.SIGKILL); os.kill(os.getppid(), signal.SIGSTOP)",
		"with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20))",
		"a = []\nwhile True: a.append(bytearray(1 << 24))",
		"import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
		hostile,
		"import ctypes\nctypes.string_at(0)",
		"import os\nos.symlink('/etc/passwd', 'link'); [os.mkfifo(f'p{i}') for i in range(500)]",
		"print('\\x1b]0;x\\x07' * 10000); raise SystemExit('\\ud800')",
	}
}

// attack runs hostile code, after which the session must work again.
func (a *actor) attack() {
	code := attacks()[a.chance.IntN(len(attacks()))]
	if a.run("attack", code, 2) == nil {
		return
	}
	for begun := time.Now(); ; {
		answer := a.run("after an attack", "6 * 7", 20)
		if answer == nil || value(answer) == "42" {
			return
		}
		if time.Since(begun) > worksWithin {
			a.seen.fault("%s: nothing works after %q: %s", a.name, code, answer.Text())
			return
		}
	}
}

// One server over HTTP and one over stdio serve honest and hostile clients for
// a while: no answer is wrong, and nothing grows.
func TestSoak(t *testing.T) {
	if *given.soak == 0 {
		t.Log("does not apply: no -soak tells for how long; make soak does")
		return
	}
	onEachEngine(t, func(t *testing.T, l lab) {
		web := l.startWeb(t, []string{"alice-0123456789abcdef", "bob-0123456789abcdef", "mallory-0123456789abcdef"})
		pipe := l.start(t, options{})
		seen := &tally{answers: map[string]int{}, slowest: map[string]time.Duration{}}
		seed := rand.Uint64()
		actors := []*actor{
			{name: "alice", server: web.connect(t, 0)},
			{name: "alice again", server: web.connect(t, 0)},
			{name: "bob", server: web.connect(t, 1)},
			{name: "mallory", server: web.connect(t, 2)},
			{name: "piped", server: pipe},
			{name: "piped mallory", server: pipe, session: "bad"},
		}
		begun, until := time.Now(), time.Now().Add(*given.soak)
		var group sync.WaitGroup
		for i, a := range actors {
			a.chance, a.seen, a.files = rand.New(rand.NewPCG(seed, uint64(i))), seen, map[string]string{}
			step := a.honest
			if strings.Contains(a.name, "mallory") {
				step = a.attack
			}
			group.Go(func() {
				for time.Now().Before(until) {
					step()
				}
			})
		}
		samples := web.sample(t, until)
		group.Wait()
		web.look(t)
		t.Logf("%s, seed %d, %v\n%s%s", l.engine, seed, time.Since(begun).Round(time.Second), seen.report(), trend(samples))
		for _, wrong := range seen.wrong {
			t.Error(wrong)
		}
		flat(t, samples)
	})
}
