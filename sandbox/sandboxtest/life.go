//go:build unix

package sandboxtest

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func (s *suite) testKillInside(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e)
	out, reply := b.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
	if reply.Number("signal") != 9 {
		t.Errorf("a child that killed itself: %v %q", reply.Header, out)
	}
	b.stillWorks()
	out, _ = b.run(`
import os, signal
for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL, signal.SIGSEGV):
    try: os.kill(1, number)
    except OSError: pass
import resource
try: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)); print("limited")
except OSError: pass
`)
	if s.Promise.InitImmune {
		if strings.Contains(out, "limited") {
			t.Error("code inside can give the first process a limit that kills it later")
		}
		b.stillWorks()
	} else {
		// Whatever it did, the sandbox either answers or is seen to have ended.
		if err := WriteFrame(b.Stream(), map[string]any{"type": "echo_request", "id": 1000}, nil); err == nil {
			answered := make(chan struct{})
			go func() { _, _ = ReadFrame(b.Stream()); close(answered) }()
			select {
			case <-answered:
			case <-b.Done():
			case <-time.After(patience):
				t.Error("the sandbox neither answers nor ends")
			}
		}
	}
}

func (s *suite) testClose(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e)
	// Busy, deaf to signals and scattered: Close must end it all the same.
	b.ask("eval_request", []byte(`
import os, signal
for i in range(8):
    if os.fork() == 0:
        os.setsid()
        break
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass
`))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wait sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wait.Go(func() { errs[i] = b.Close(ctx) })
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("concurrent close: %v", err)
	}
	if exit := b.ended(); !exit.Closed || exit.OOMKilled {
		t.Errorf("exit %+v, want Closed", exit)
	}
	if err := b.Close(ctx); err != nil {
		t.Errorf("close again: %v", err)
	}
	if _, err := ReadFrame(b.Stream()); err == nil {
		t.Error("a closed sandbox still speaks")
	}
	if err := WriteFrame(b.Stream(), map[string]any{"type": "echo_request", "id": 1}, nil); err == nil {
		t.Error("a closed sandbox still takes frames")
	}
}

func (s *suite) testStreamClose(t *testing.T, e sandbox.Engine) {
	for _, busy := range []bool{false, true} {
		b := s.create(t, e)
		if busy {
			b.ask("eval_request", []byte("import os, time\nfor i in range(4):\n    if os.fork() == 0: os.setsid(); break\nwhile True: pass"))
			time.Sleep(200 * time.Millisecond) // let it run
		}
		if err := b.Stream().Close(); err != nil {
			t.Errorf("close stream: %v", err)
		}
		start := time.Now()
		if exit := b.ended(); exit.OOMKilled {
			t.Errorf("exit %+v", exit)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("ended %v after its stream (busy %v)", took, busy)
		}
	}
}

func (s *suite) testCancelledCreate(t *testing.T, e sandbox.Engine) {
	other := s.create(t, e) // what an engine keeps for good is there now
	before := s.left(t)
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		made, err := e.Create(ctx, s.spec())
		cancel()
		if err == nil {
			closeBox(t, made) // it was quicker
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("create cancelled after %v: %v, want DeadlineExceeded", after, err)
		}
		s.nothingNew(t, before)
	}
	other.stillWorks()
	s.create(t, e).stillWorks()
}

func (s *suite) testNoLeak(t *testing.T, e sandbox.Engine) {
	cycle := func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		made, err := e.Create(ctx, s.spec())
		if err != nil {
			t.Fatalf("create sandbox: %v", err)
		}
		b := greet(t, made)
		b.stillWorks()
		closeBox(t, made)
	}
	cycle() // what an engine keeps for good is there after the first
	// The collector would close forgotten descriptors and hide the leak.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	goroutines, descriptors, _ := resources()
	const cycles, slack = 6, 3
	for range cycles {
		cycle()
	}
	short, cancel := context.WithTimeout(context.Background(), 60*time.Millisecond)
	defer cancel()
	if made, err := e.Create(short, s.spec()); err == nil {
		closeBox(t, made)
	}
	eventually(t, 10*time.Second, func() string {
		g, d, detail := resources()
		if g <= goroutines+slack && d <= descriptors+slack {
			return ""
		}
		return "goroutines or descriptors leak:\n" + detail
	})
}
