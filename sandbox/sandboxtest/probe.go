//go:build unix

package sandboxtest

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

//go:embed probe/biocage_probe.py
var probeSource []byte

const probeFile = "biocage_probe.py"

// probeDir writes the probe where an engine can mount it.
func probeDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, probeFile), probeSource, 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A Frame is one message of the agent protocol.
type Frame struct {
	Header map[string]any
	Body   []byte
}

// Number is a field of the header as a number, 0 when it is none.
func (f Frame) Number(key string) int {
	n, _ := f.Header[key].(float64)
	return int(n)
}

// WriteFrame sends one frame.
func WriteFrame(w io.Writer, header map[string]any, body []byte) error {
	text, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	data := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	data = binary.BigEndian.AppendUint32(data, uint32(len(body)))
	_, err = w.Write(append(append(data, text...), body...))
	return err
}

// ReadFrame receives one frame of at most 1 MiB.
func ReadFrame(r io.Reader) (Frame, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	h, b := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if h > 1<<16 || b > 1<<20 {
		return Frame{}, fmt.Errorf("frame of %d and %d bytes", h, b)
	}
	data := make([]byte, h+b)
	if _, err := io.ReadFull(r, data); err != nil {
		return Frame{}, err
	}
	f := Frame{Body: data[h:]}
	if err := json.Unmarshal(data[:h], &f.Header); err != nil {
		return Frame{}, fmt.Errorf("decode header: %w", err)
	}
	return f, nil
}

// A box is a sandbox whose first process is the probe.
type box struct {
	sandbox.Sandbox
	t     testing.TB
	hello Frame
	id    int
}

// patience bounds everything that should take moments: the machine may be busy.
const patience = 60 * time.Second

// greet reads the probe's first frame.
func greet(t testing.TB, s sandbox.Sandbox) *box {
	t.Helper()
	b := &box{Sandbox: s, t: t}
	b.hello = b.read()
	if b.hello.Header["type"] != "kernel_info" {
		t.Fatalf("first frame is %v, want kernel_info", b.hello.Header)
	}
	return b
}

// read receives a frame, or fails the test when none comes.
func (b *box) read() Frame {
	b.t.Helper()
	type answer struct {
		f   Frame
		err error
	}
	got := make(chan answer, 1)
	go func() {
		f, err := ReadFrame(b.Stream())
		got <- answer{f, err}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			b.t.Fatalf("read from sandbox: %v (%s)", a.err, b.fate())
		}
		return a.f
	case <-time.After(patience):
		closeBox(b.t, b)
		b.t.Fatal("the sandbox did not answer")
		return Frame{}
	}
}

// fate tells how the sandbox ended, if it did.
func (b *box) fate() string {
	select {
	case <-b.Done():
		return fmt.Sprintf("sandbox ended: %+v", b.Exit())
	case <-time.After(2 * time.Second):
		return "sandbox lives"
	}
}

// ask sends a request without waiting for its reply.
func (b *box) ask(kind string, body []byte) {
	b.t.Helper()
	b.id++
	if err := WriteFrame(b.Stream(), map[string]any{"type": kind, "id": b.id}, body); err != nil {
		b.t.Fatalf("write to sandbox: %v (%s)", err, b.fate())
	}
}

// run runs Python code in a child of the probe.
func (b *box) run(code string) (output string, f Frame) {
	b.t.Helper()
	b.ask("eval_request", []byte(code))
	f = b.read()
	if f.Header["type"] != "eval_reply" || f.Number("id") != b.id {
		b.t.Fatalf("got %v, want the reply to request %d", f.Header, b.id)
	}
	return string(f.Body), f
}

// out is the output of code that must succeed.
func (b *box) out(code string) string {
	b.t.Helper()
	text, f := b.run(code)
	if f.Number("exit") != 0 {
		b.t.Fatalf("code failed with %v:\n%s\noutput:\n%s", f.Header, code, text)
	}
	return strings.TrimSpace(text)
}

// closeBox closes and insists.
func closeBox(t testing.TB, s sandbox.Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close sandbox: %v", err)
	}
}

// ended waits for the sandbox's end.
func (b *box) ended() sandbox.Exit {
	b.t.Helper()
	select {
	case <-b.Done():
		return b.Exit()
	case <-time.After(patience):
		b.t.Fatal("the sandbox did not end")
		return sandbox.Exit{}
	}
}
