package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// fakeEngine makes sandboxes whose supervisor is a fakeAgent.
type fakeEngine struct {
	mu      sync.Mutex
	made    []*fakeSandbox
	memory  int64 // of the machine
	fail    error
	live    bool
	slow    time.Duration // what making a sandbox takes
	load    time.Duration // what its agent needs to load the libraries
	closed  bool
	created atomic.Int64
	making  atomic.Int64
	most    atomic.Int64 // made at once
}

func (*fakeEngine) Name() string { return "fake" }

func (e *fakeEngine) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Isolation: "none", LiveExpose: e.live, MachineMemory: e.memory}
}
func (*fakeEngine) Check(context.Context) error       { return nil }
func (*fakeEngine) Reap(context.Context) (int, error) { return 0, nil }
func (e *fakeEngine) Close() error                    { e.closed = true; return nil }

func (e *fakeEngine) setSlow(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slow = d
}

func (e *fakeEngine) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	e.mu.Lock()
	slow := e.slow
	e.mu.Unlock()
	e.most.Store(max(e.most.Load(), e.making.Add(1)))
	defer e.making.Add(-1)
	time.Sleep(slow)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	host, guest := net.Pipe()
	sb := &fakeSandbox{
		id: fmt.Sprintf("fake-%d", e.created.Add(1)), spec: spec, stream: host,
		done: make(chan struct{}), agent: &fakeAgent{stream: guest, load: e.load, gone: make(chan struct{}), files: map[string][]byte{}},
	}
	e.made = append(e.made, sb)
	go func() {
		sb.agent.serve()
		sb.finish(sandbox.Exit{Code: 0, Reason: "its first process ended"})
	}()
	return sb, nil
}

func (e *fakeEngine) last() *fakeSandbox {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.made[len(e.made)-1]
}

func (e *fakeEngine) byID(t *testing.T, id string) *fakeSandbox {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, sb := range e.made {
		if sb.id == id {
			return sb
		}
	}
	t.Fatalf("no sandbox %q was made", id)
	return nil
}

// alive counts the sandboxes that have not ended.
func (e *fakeEngine) alive() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, sb := range e.made {
		select {
		case <-sb.done:
		default:
			n++
		}
	}
	return n
}

type fakeSandbox struct {
	id     string
	spec   sandbox.Spec
	stream net.Conn
	agent  *fakeAgent
	once   sync.Once
	done   chan struct{}
	exit   sandbox.Exit
	ooms   atomic.Int64
}

func (s *fakeSandbox) ID() string                 { return s.id }
func (s *fakeSandbox) Stream() io.ReadWriteCloser { return s.stream }
func (s *fakeSandbox) Done() <-chan struct{}      { return s.done }
func (s *fakeSandbox) Exit() sandbox.Exit         { return s.exit }

func (s *fakeSandbox) Stats(context.Context) (sandbox.Stats, error) {
	return sandbox.Stats{MemoryBytes: 1 << 20, OOMKills: s.ooms.Load()}, nil
}

func (s *fakeSandbox) finish(exit sandbox.Exit) {
	s.once.Do(func() {
		s.exit = exit
		close(s.done)
		s.stream.Close()
		s.agent.stream.Close()
	})
}

func (s *fakeSandbox) Close(context.Context) error {
	s.finish(sandbox.Exit{Closed: true, Reason: "closed"})
	return nil
}

// fakeAgent speaks the supervisor's side; what a cell does is told by its code.
type fakeAgent struct {
	stream net.Conn
	wmu    sync.Mutex
	mu     sync.Mutex
	n      int // a variable that lives as long as the worker
	files  map[string][]byte
	cell   *fakeCell
	mute   bool          // answers nothing any more
	resets time.Duration // what a reset takes
	load   time.Duration
	pings  int // that came before the start's reply
	loaded bool
	room   int  // bytes that files may have together; 0 is no limit
	died   bool // the worker ended since the last cell
	gone   chan struct{}
}

type fakeCell struct {
	id      int64
	code    string
	int1    chan struct{}
	reset   chan struct{}
	graceMS int64
}

func (a *fakeAgent) send(header map[string]any, parts ...any) {
	var body []byte
	var list []map[string]any
	for i := 0; i+1 < len(parts); i += 2 {
		text, _ := parts[i+1].(string)
		list = append(list, map[string]any{"name": parts[i], "size": len(text)})
		body = append(body, text...)
	}
	if list != nil {
		header["parts"] = list
	}
	a.sendRaw(header, body)
}

func (a *fakeAgent) sendRaw(header map[string]any, body []byte) {
	h, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	buf := binary.BigEndian.AppendUint32(nil, uint32(len(h)))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)))
	a.wmu.Lock()
	defer a.wmu.Unlock()
	a.stream.Write(append(append(buf, h...), body...))
}

type fakeRequest struct {
	Type      string `json:"type"`
	ID        int64  `json:"id"`
	Cell      int64  `json:"cell"`
	GraceMS   int64  `json:"grace_ms"`
	KeepFiles bool   `json:"keep_files"`
	Path      string `json:"path"`
	Mode      string `json:"mode"`
	Offset    int64  `json:"offset"`
	Limit     int64  `json:"limit"`
	More      bool   `json:"more"`
}

func (a *fakeAgent) serve() {
	defer close(a.gone)
	a.sendRaw(map[string]any{"type": "kernel_info", "protocol": 1, "agent": "fake", "python": "3.13.5", "pid": 1}, nil)
	for {
		var prefix [8]byte
		if _, err := io.ReadFull(a.stream, prefix[:]); err != nil {
			return
		}
		h := make([]byte, binary.BigEndian.Uint32(prefix[:4]))
		b := make([]byte, binary.BigEndian.Uint32(prefix[4:]))
		if _, err := io.ReadFull(a.stream, h); err != nil {
			return
		}
		if _, err := io.ReadFull(a.stream, b); err != nil {
			return
		}
		var req fakeRequest
		if err := json.Unmarshal(h, &req); err != nil {
			return
		}
		if !a.handle(req, b) {
			return
		}
	}
}

func (a *fakeAgent) handle(req fakeRequest, body []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mute {
		return true
	}
	ok := map[string]any{"type": "x_reply", "id": req.ID, "status": "ok"}
	switch req.Type {
	case "start_request":
		go func() {
			select {
			case <-time.After(a.load):
			case <-a.gone:
				return
			}
			a.mu.Lock()
			a.loaded = true
			a.mu.Unlock()
			a.sendRaw(ok, nil)
		}()
		return true
	case "ping_request":
		if !a.loaded {
			a.pings++
		}
	case "execute_request":
		c := &fakeCell{id: req.ID, code: string(body), int1: make(chan struct{}, 4), reset: make(chan struct{})}
		a.cell = c
		go a.run(c)
		return true
	case "interrupt_request":
		delivered := a.cell != nil && a.cell.id == req.Cell
		ok["delivered"] = delivered
		if delivered {
			a.cell.graceMS = req.GraceMS
			a.cell.int1 <- struct{}{}
		}
	case "reset_request":
		if a.cell != nil {
			close(a.cell.reset)
			a.cell = nil
		}
		time.Sleep(a.resets)
		a.n, a.died = 0, false
		if !req.KeepFiles {
			maps.DeleteFunc(a.files, func(name string, _ []byte) bool { return !strings.HasPrefix(name, "/") })
		}
	case "list_files_request":
		list, err := json.Marshal(a.listing())
		if err != nil {
			panic(err)
		}
		a.sendRaw(ok, list)
		return true
	case "inspect_request":
		ok["variables"] = []map[string]any{{"name": "n", "type": "int", "summary": fmt.Sprint(a.n)}}
	case "write_file_request":
		if a.room > 0 && len(a.files[req.Path])+len(body) > a.room {
			ok["status"], ok["code"], ok["message"] = "error", "no_space", "no space left"
			break
		}
		if req.Mode == "create" {
			a.files[req.Path] = nil
		}
		a.files[req.Path] = append(a.files[req.Path], body...)
		ok["path"], ok["size"] = "/work/"+req.Path, len(a.files[req.Path])
	case "read_file_request":
		data, found := a.files[req.Path]
		if !found {
			ok["status"], ok["code"], ok["message"] = "error", "not_found", "no such file"
			break
		}
		ok["path"], ok["size"] = "/work/"+req.Path, len(data)
		from := min(req.Offset, int64(len(data)))
		a.sendRaw(ok, data[from:min(from+req.Limit, int64(len(data)))])
		return true
	}
	a.sendRaw(ok, nil)
	return true
}

// run plays one cell.
func (a *fakeAgent) run(c *fakeCell) {
	reply := map[string]any{"type": "execute_reply", "id": c.id, "status": "ok", "streams": map[string]any{}}
	died := func(cause string, signal int) {
		reply["status"], reply["restarted"] = "died", true
		reply["death"] = map[string]any{"cause": cause, "signal": signal}
		a.mu.Lock()
		a.n = 0
		a.mu.Unlock()
	}
	a.mu.Lock()
	if a.died {
		a.died = false
		reply["restarted"], reply["death"] = true, map[string]any{"cause": "self", "exit_code": 3}
	}
	a.mu.Unlock()
	var parts []any
	switch c.code {
	case "n += 1":
		a.mu.Lock()
		a.n++
		parts = []any{"result", fmt.Sprint(a.n)}
		a.mu.Unlock()
	case "print":
		a.sendRaw(map[string]any{"type": "stream", "id": c.id, "name": "stdout"}, []byte("hello\n"))
		reply["streams"] = map[string]any{"stdout": map[string]any{"total": 6, "tail_from": 6}}
	case "sleep": // interruptible
		select {
		case <-c.int1:
			reply["interrupted"], reply["status"] = true, "error"
			reply["error"] = map[string]any{"ename": "KeyboardInterrupt", "line": 1}
		case <-c.reset:
			died("reset", 9)
		case <-a.gone:
			return
		case <-time.After(time.Hour):
		}
	case "sleep 6", "sleep 60":
		select {
		case <-c.int1:
			reply["interrupted"] = true
		case <-a.gone:
			return
		case <-time.After(map[string]time.Duration{"sleep 6": 6 * time.Second, "sleep 60": time.Minute}[c.code]):
			parts = []any{"result", "'slept'"}
		}
	case "stubborn": // only the ladder's last rung helps
		select {
		case <-c.int1:
		case <-a.gone:
			return
		}
		select {
		case <-time.After(time.Duration(c.graceMS) * time.Millisecond):
		case <-a.gone:
			return
		}
		reply["interrupted"] = true
		died("interrupt", 9)
	case "wedge": // the supervisor itself stops answering
		a.mu.Lock()
		a.mute = true
		a.mu.Unlock()
		return
	case "after a death": // the worker of the cell before ended between the cells
		reply["restarted"], reply["death"] = true, map[string]any{"cause": "self", "exit_code": 3}
		parts = []any{"result", "1"}
	case "segv":
		died("self", 11)
	case "oom":
		died("self", 9)
	case "raise":
		reply["status"] = "error"
		reply["error"] = map[string]any{"ename": "ValueError", "line": 2, "hint": "try 1"}
		parts = []any{"message", "bad", "traceback", "Traceback"}
	case "forge": // a frame for a cell that does not run
		a.sendRaw(map[string]any{"type": "execute_reply", "id": c.id + 7, "status": "ok"}, nil)
		return
	case "vanish":
		a.stream.Close()
		return
	}
	a.mu.Lock()
	if a.cell == c {
		a.cell = nil
	}
	a.mu.Unlock()
	a.send(reply, parts...)
}

// newTestManager makes a manager on a fake engine; change adjusts its options.
func newTestManager(t *testing.T, e *fakeEngine, change func(*Options)) *Manager {
	t.Helper()
	m := startTestManager(t, e, change)
	t.Cleanup(func() { endTestManager(t, m, e) })
	return m
}

func endTestManager(t *testing.T, m *Manager, e *fakeEngine) {
	t.Helper()
	if err := m.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("Close: %v", err)
	}
	if n := e.alive(); n != 0 {
		t.Errorf("%d sandboxes are left after Close", n)
	}
}

func startTestManager(t *testing.T, e *fakeEngine, change func(*Options)) *Manager {
	t.Helper()
	opts := Options{
		Base: func(context.Context) (Base, error) {
			return Base{Engine: e, Environment: "default", Spec: sandbox.Spec{
				Root: sandbox.Root{Dir: "/x"}, Command: []string{"x"}, Agent: "/x",
				Limits: sandbox.Limits{MemoryBytes: 1 << 30, CPUs: 1, PIDs: 64, DiskBytes: 1 << 30},
			}}, nil
		},
		Timeout: 30 * time.Second, MaxTimeout: 10 * time.Minute, AnswerWithin: 45 * time.Second,
		InterruptGrace: 2 * time.Second, QueueWait: 10 * time.Second, StartTimeout: time.Minute,
		MaxOutput: 32 << 10, IdleTimeout: 30 * time.Minute, Grace: 10 * time.Minute, MaxSessions: 4,
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opts)
	}
	return NewManager(t.Context(), opts)
}

var errTest = errors.New("made to fail")
