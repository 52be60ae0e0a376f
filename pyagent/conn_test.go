package pyagent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// encode builds a frame as a supervisor would.
func encode(header string, body string) []byte {
	buf := binary.BigEndian.AppendUint32(nil, uint32(len(header)))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)))
	return append(append(buf, header...), body...)
}

// peer is the supervisor's end: it records requests and answers by script.
type peer struct {
	net.Conn
	t *testing.T
}

// request reads one request and gives its header and body.
func (p peer) request() (map[string]any, string) {
	p.t.Helper()
	var prefix [8]byte
	if _, err := io.ReadFull(p, prefix[:]); err != nil {
		p.t.Errorf("read request: %v", err)
		return nil, ""
	}
	buf := make([]byte, binary.BigEndian.Uint32(prefix[:4])+binary.BigEndian.Uint32(prefix[4:]))
	if _, err := io.ReadFull(p, buf); err != nil {
		p.t.Errorf("read request: %v", err)
		return nil, ""
	}
	n := binary.BigEndian.Uint32(prefix[:4])
	var header map[string]any
	if err := json.Unmarshal(buf[:n], &header); err != nil {
		p.t.Errorf("request header %q: %v", buf[:n], err)
	}
	return header, string(buf[n:])
}

func (p peer) send(header, body string) {
	p.t.Helper()
	if _, err := p.Write(encode(header, body)); err != nil {
		p.t.Errorf("send: %v", err)
	}
}

func pair(t *testing.T) (*Conn, peer) {
	t.Helper()
	host, guest := net.Pipe()
	c := NewConn(host)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c, peer{Conn: guest, t: t}
}

type record struct {
	mu   sync.Mutex
	seen []string
}

func (r *record) add(s string) { r.mu.Lock(); defer r.mu.Unlock(); r.seen = append(r.seen, s) }

func (r *record) Stream(name string, data []byte) { r.add(name + ":" + string(data)) }
func (r *record) Progress(_ int64, last string)   { r.add("progress:" + last) }
func (r *record) Display(m string, _ int, last bool, d []byte) {
	r.add(m + ":" + string(d) + map[bool]string{true: "."}[last])
}

func TestExecute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t)
		go func() {
			header, body := p.request()
			want := map[string]any{"type": "execute_request", "id": 1.0, "max_output": 100.0, "execution_count": 3.0}
			if diff := cmp.Diff(want, header); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if body != "x = 1" {
				t.Errorf("code %q", body)
			}
			p.send(`{"type":"stream","id":1,"name":"stdout"}`, "a\xff")
			p.send(`{"type":"progress","id":1,"bytes":2,"last":"a"}`, "")
			p.send(`{"type":"display_data","id":1,"mime":"image/png","index":0,"last":true}`, "PNG")
			p.send(`{"type":"execute_reply","id":1,"status":"ok","parts":[{"name":"result","size":2},{"name":"stdout_tail","size":1}],"streams":{"stdout":{"total":9,"tail_from":8}},"truncated":["stdout"]}`, "42z")
		}()
		sink := &record{}
		e, err := c.Execute(ExecuteRequest{Code: "x = 1", MaxOutput: 100, Count: 3}, sink)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := e.Reply()
		if err != nil {
			t.Fatal(err)
		}
		want := ExecuteReply{
			Status: StatusOK, Truncated: []string{"stdout"},
			Streams: map[string]StreamTail{"stdout": {Total: 9, TailFrom: 8}},
			Parts:   map[string][]byte{"result": []byte("42"), "stdout_tail": []byte("z")},
		}
		if diff := cmp.Diff(want, reply); diff != "" {
			t.Errorf("reply (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"stdout:a\xff", "progress:a", "image/png:PNG."}, sink.seen); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// Whatever the sandbox sends against the protocol ends the connection with an
// error of ErrProtocol's class; nothing waits for ever and nothing panics.
func TestHostileFrames(t *testing.T) {
	big := string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, maxHeader+1), 0))
	bigBody := string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 2), maxBodyIn+1))
	tests := map[string]string{
		"header too long":        big,
		"body too long":          bigBody + "{}",
		"no header":              "\x00\x00\x00\x00\x00\x00\x00\x00",
		"ends within a frame":    string(encode(`{"type":"stream","id":1}`, ""))[:12],
		"not JSON":               string(encode("FORGED", "")),
		"not an object":          string(encode("[1]", "")),
		"too deep":               string(encode(strings.Repeat("[", 40)+strings.Repeat("]", 40), "")),
		"unknown type":           string(encode(`{"type":"exec"}`, "")),
		"reply nobody asked for": string(encode(`{"type":"ping_reply","id":77,"status":"ok"}`, "")),
		"foreign cell":           string(encode(`{"type":"execute_reply","id":2,"status":"ok"}`, "")),
		"stream of no cell":      string(encode(`{"type":"stream","id":9,"name":"stdout"}`, "x")),
		"unknown stream":         string(encode(`{"type":"stream","id":1,"name":"stdlog"}`, "x")),
		"unknown status":         string(encode(`{"type":"execute_reply","id":1,"status":"fine"}`, "")),
		"negative part":          string(encode(`{"type":"execute_reply","id":1,"status":"ok","parts":[{"name":"result","size":-1}]}`, "")),
		"part beyond the body":   string(encode(`{"type":"execute_reply","id":1,"status":"ok","parts":[{"name":"result","size":9}]}`, "x")),
		"wrong field type":       string(encode(`{"type":"execute_reply","id":1,"status":"ok","files":"no"}`, "")),
	}
	for name, bytes := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := pair(t)
				go func() {
					p.request()
					p.Write([]byte(bytes))
					p.Close()
				}()
				e, err := c.Execute(ExecuteRequest{Code: "x"}, &record{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := e.Reply(); !errors.Is(err, ErrProtocol) {
					t.Errorf("got %v, want ErrProtocol", err)
				}
			})
		})
	}
}

func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t)
		go func() {
			p.request()
			p.send(`{"type":"read_file_reply","id":1,"status":"error","code":"not_found","message":"no such file"}`, "")
		}()
		_, err := c.ReadFile(t.Context(), "a", 0, 10)
		var refused *RequestError
		if !errors.As(err, &refused) || refused.Code != "not_found" {
			t.Errorf("got %v, want a RequestError not_found", err)
		}
	})
}

// A reply that comes after its caller has gone is dropped, not a fault.
func TestLateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			p.request()
			time.Sleep(2 * time.Second)
			p.send(`{"type":"ping_reply","id":1,"status":"ok"}`, "")
			p.request()
			p.send(`{"type":"ping_reply","id":2,"status":"ok","busy":5}`, "")
		}()
		if _, err := c.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		time.Sleep(3 * time.Second)
		if got, err := c.Ping(t.Context()); err != nil || got.Busy != 5 {
			t.Errorf("the next ping: %+v, %v", got, err)
		}
	})
}

func TestHelloRefusesAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t)
		go p.send(`{"type":"kernel_info","protocol":2,"python":"3.13.5"}`, "")
		if _, err := c.Hello(t.Context()); !errors.Is(err, ErrProtocol) {
			t.Errorf("got %v, want ErrProtocol", err)
		}
	})
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t)
		go func() {
			for id := 1; id <= 2; id++ {
				p.request()
				p.send(`{"type":"ping_reply","id":`+string(rune('0'+id))+`,"status":"ok"}`, "")
			}
			p.request() // the third is not answered
		}()
		start := time.Now()
		err := c.KeepAlive(t.Context(), 10*time.Second)
		if err == nil || time.Since(start) > time.Minute {
			t.Errorf("got %v after %s, want a missed ping within a minute", err, time.Since(start))
		}
	})
}

func TestLongBodyIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pair(t)
		data := strings.Repeat("x", 3<<20)
		go func() {
			if _, body := p.request(); body != data {
				t.Errorf("body of %d bytes, want %d", len(body), len(data))
			}
			p.send(`{"type":"write_file_reply","id":1,"status":"ok","path":"/work/a","size":3145728}`, "")
		}()
		got, err := c.WriteFile(t.Context(), WriteFileRequest{Path: "a", Mode: "create"}, []byte(data))
		if err != nil || got.Size != 3<<20 {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := c.WriteFile(t.Context(), WriteFileRequest{Path: "a"}, make([]byte, maxBodyOut+1)); err == nil {
			t.Error("a body over the bound was sent")
		}
	})
}

// FuzzReader feeds a connection arbitrary bytes: it must end, never panic,
// and never hold more than one frame.
func FuzzReader(f *testing.F) {
	f.Add(encode(`{"type":"kernel_info","protocol":1}`, ""))
	f.Add(encode(`{"type":"execute_reply","id":1,"status":"ok","parts":[{"name":"result","size":1}]}`, "x"))
	f.Add(encode(`{"type":"stream","id":1,"name":"stderr"}`, "abc"))
	f.Add([]byte("\x00\x00\xff\xff\x00\x00\x00\x00{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		frames := newFrameReader(strings.NewReader(string(data)))
		for {
			fr, err := frames.next()
			if err != nil {
				return
			}
			if len(fr.header) > maxHeader || len(fr.body) > maxBodyIn {
				t.Fatalf("frame of %d + %d bytes", len(fr.header), len(fr.body))
			}
			if _, err := decodeExecuteReply(fr); err != nil {
				continue
			}
		}
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	host, guest := net.Pipe()
	c := NewConn(host)
	defer c.Close()
	go func() {
		frames := newFrameReader(guest)
		for {
			fr, err := frames.next()
			if err != nil {
				return
			}
			var req struct {
				ID int64 `json:"id"`
			}
			if err := json.Unmarshal(fr.header, &req); err != nil {
				return
			}
			out, _, err := appendFrame(nil, map[string]any{"type": "execute_reply", "id": req.ID, "status": "ok"}, nil)
			if err != nil {
				return
			}
			if _, err := guest.Write(out); err != nil {
				return
			}
		}
	}()
	sink := &record{}
	b.ReportAllocs()
	for b.Loop() {
		e, err := c.Execute(ExecuteRequest{Code: "x = 1", MaxOutput: 100}, sink)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.Reply(); err != nil {
			b.Fatal(err)
		}
	}
}
