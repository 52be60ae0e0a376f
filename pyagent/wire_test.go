package pyagent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestWireTranscripts replays each transcript of testdata/wire against a Conn:
// the host's frames must be what the Conn sends when it is asked for the same,
// and the agent's frames must be taken without a fault.
func TestWireTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { replay(t, archive) })
		})
	}
}

func replay(t *testing.T, archive *txtar.Archive) {
	host, guest := net.Pipe()
	r := &replayer{t: t, conn: NewConn(host), peer: peer{Conn: guest, t: t}, cells: map[float64]*Execution{}}
	for _, section := range archive.Files {
		_, side, _ := strings.Cut(section.Name, " ")
		switch side {
		case "agent":
			header, body := splitSection(t, section.Data)
			r.peer.send(header, body)
			synctest.Wait()
		case "host":
			header, body := splitSection(t, section.Data)
			r.ask(header, body)
		}
		if t.Failed() {
			break
		}
	}
	if err := r.conn.Err(); err != nil {
		t.Errorf("the transcript ended the connection: %v", err)
	}
	guest.Close()
	r.calls.Wait()
	if err := r.conn.Close(); err != nil {
		t.Error(err)
	}
}

// splitSection gives a frame's header line and its body.
func splitSection(t *testing.T, data []byte) (header, body string) {
	t.Helper()
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	text := strings.TrimSuffix(string(rest), "\n")
	if encoded, ok := strings.CutPrefix(text, "base64:"); ok {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		text = string(raw)
	}
	return string(line), text
}

// A replayer asks a Conn for what a transcript's host sent.
type replayer struct {
	t     *testing.T
	conn  *Conn
	peer  peer
	calls sync.WaitGroup
	cells map[float64]*Execution
}

// ask makes the Conn send the request and compares it.
func (r *replayer) ask(header, body string) {
	r.t.Helper()
	var want map[string]any
	if err := json.Unmarshal([]byte(header), &want); err != nil {
		r.t.Fatal(err)
	}
	id, ok := want["id"].(float64)
	if !ok {
		r.t.Fatalf("no id in %s", header)
	}
	r.conn.mu.Lock()
	r.conn.nextID = int64(id) - 1 // transcripts may leave numbers out
	r.conn.mu.Unlock()
	kind, _ := want["type"].(string)
	r.calls.Go(func() { r.call(kind, id, header, body) })
	got, gotBody := r.peer.request()
	synctest.Wait()
	for name, value := range want {
		// A zero that the Conn leaves out means the same.
		if _, sent := got[name]; !sent && (value == false || value == 0.0 || value == "") {
			delete(want, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("request %v (-transcript +sent):\n%s", id, diff)
	}
	if gotBody != body {
		r.t.Errorf("request %v: body %q, want %q", id, gotBody, body)
	}
}

// call makes one request; what it is answered is the transcript's business.
func (r *replayer) call(kind string, id float64, header, body string) {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	var f struct {
		Code      string  `json:"code"`
		MaxOutput int64   `json:"max_output"`
		Count     int64   `json:"execution_count"`
		Cell      float64 `json:"cell"`
		GraceMS   int64   `json:"grace_ms"`
		KeepFiles bool    `json:"keep_files"`
		Limit     int64   `json:"limit"`
		Path      string  `json:"path"`
		Offset    int64   `json:"offset"`
		Recursive bool    `json:"recursive"`
		Target    string  `json:"target"`
	}
	var start StartRequest
	var write WriteFileRequest
	for _, into := range []any{&f, &start, &write} {
		if err := json.Unmarshal([]byte(header), into); err != nil {
			r.t.Errorf("%s: %v", header, err)
		}
	}
	var err error
	switch kind {
	case "start_request":
		_, err = r.conn.Start(ctx, start)
	case "ping_request":
		_, err = r.conn.Ping(ctx)
	case "shutdown_request":
		err = r.conn.Shutdown(ctx)
	case "reset_request":
		err = r.conn.Reset(ctx, f.KeepFiles)
	case "inspect_request":
		_, err = r.conn.Inspect(ctx, int(f.Limit))
	case "write_file_request":
		_, err = r.conn.WriteFile(ctx, write, []byte(body))
	case "read_file_request":
		_, err = r.conn.ReadFile(ctx, f.Path, f.Offset, f.Limit)
	case "list_files_request":
		_, _, err = r.conn.ListFiles(ctx, f.Path, f.Recursive, int(f.Limit))
	case "make_link_request":
		err = r.conn.MakeLink(ctx, f.Path, f.Target)
	case "execute_request":
		r.cells[id], err = r.conn.Execute(ExecuteRequest{Code: body, MaxOutput: f.MaxOutput, Count: f.Count}, &record{})
	case "interrupt_request":
		_, err = r.cells[f.Cell].Interrupt(ctx, time.Duration(f.GraceMS)*time.Millisecond)
	default: // what no method sends: the refusal must be understood all the same
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(header), &fields); err != nil {
			r.t.Error(err)
		}
		delete(fields, "type")
		delete(fields, "id")
		_, err = r.conn.roundTrip(ctx, kind, fields, []byte(body), nil)
	}
	var refused *RequestError
	if err != nil && !errors.Is(err, ErrLost) && !errors.As(err, &refused) {
		r.t.Errorf("%s: %v", kind, err)
	}
}
