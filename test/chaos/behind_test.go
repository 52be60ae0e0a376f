//go:build linux

package chaos

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// A harm is done to a sandbox without the server's knowledge.
type harm struct {
	name   string
	engine string
	do     func(t *testing.T, l lab, id string)
}

func harms() []harm {
	command := func(args ...string) func(*testing.T, lab, string) {
		return func(t *testing.T, l lab, id string) {
			t.Helper()
			l.docker(t, append(args, id)...)
		}
	}
	sentry := func(sig syscall.Signal, words ...string) func(*testing.T, lab, string) {
		return func(t *testing.T, _ lab, id string) {
			t.Helper()
			signal(t, sig, processes(t, append(words, id)...))
		}
	}
	return []harm{
		{"killed", "docker", command("kill")},
		{"removed", "docker", command("rm", "--force")},
		{"stopped", "docker", command("stop", "--timeout", "1")},
		{"paused", "docker", command("pause")},
		{"started again", "docker", func(t *testing.T, l lab, id string) {
			t.Helper()
			// What it was given from the host is gone by then, so the daemon refuses.
			if out, err := l.command(t, "restart", "--timeout", "0", id); err == nil {
				t.Logf("the container runs again: %s", out)
			}
		}},
		{"first process killed", "docker", func(t *testing.T, l lab, id string) {
			t.Helper()
			l.docker(t, "kill", "--signal", "KILL", id)
		}},
		{"sentry killed", "gvisor", sentry(syscall.SIGKILL, "runsc-sandbox")},
		{"sentry stopped", "gvisor", sentry(syscall.SIGSTOP, "runsc-sandbox")},
		{"gofer killed", "gvisor", sentry(syscall.SIGKILL, "runsc-gofer")},
		{"all killed", "gvisor", sentry(syscall.SIGKILL, "runsc-")},
	}
}

// Whatever befalls a sandbox behind the server's back, while it is idle or
// busy: the next answers say what was lost, and the session goes on.
func TestBehindTheServersBack(t *testing.T) {
	onEachEngine(t, func(t *testing.T, l lab) {
		for _, h := range harms() {
			if h.engine != l.engine {
				continue
			}
			t.Run(h.name, func(t *testing.T) {
				t.Run("idle", func(t *testing.T) {
					c := l.start(t, options{})
					c.prepare(t)
					h.do(t, l, c.sandbox(t))
					c.lostOrKept(t, c.works(t))
				})
				t.Run("busy", func(t *testing.T) { l.harmBusy(t, h) })
			})
		}
	})
}

func (l lab) harmBusy(t *testing.T, h harm) {
	t.Helper()
	c := l.start(t, options{})
	c.prepare(t)
	id := c.sandbox(t)
	run, err := c.BeginTool("python_run", map[string]any{"code": "import time; time.sleep(8); x", "timeout_seconds": 10})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	h.do(t, l, id)
	select {
	case <-run.Ended():
	case <-time.After(answerWithin):
		t.Fatal("the run is not answered")
	}
	a, err := run.Answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clear(t, a)
	if value(a) != "41" && a.Object.Error == nil {
		t.Errorf("neither a value nor an error: %s", a.Line)
	}
	t.Logf("the run was answered after %.1f s: %s", a.Took.Seconds(), strings.ReplaceAll(a.Text(), "\n", " "))
	c.lostOrKept(t, a.Text()+a.Object.RestartReason+c.works(t))
}
