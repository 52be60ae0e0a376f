package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/session"
)

// A client is a registered connection that keeps its notifications.
type client struct {
	notifications chan mcp.JSONRPCNotification
}

func (c *client) SessionID() string                                   { return "conn" }
func (c *client) Initialize()                                         {}
func (c *client) Initialized() bool                                   { return true }
func (c *client) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notifications }

// A harness calls tools the way a transport does.
type harness struct {
	t      *testing.T
	server *server.MCPServer
	client *client
	log    bytes.Buffer
}

func newHarness(t *testing.T, sessions Sessions, opts Options) *harness {
	t.Helper()
	h := &harness{t: t, client: &client{notifications: make(chan mcp.JSONRPCNotification, 64)}}
	opts.Logger = slog.New(slog.NewTextHandler(&h.log, nil))
	h.server = server.NewMCPServer("t", "1")
	h.server.AddTools(All(sessions, opts)...)
	h.server.AddResourceTemplates(Templates(sessions, opts)...)
	return h
}

func (h *harness) request(method, params string) string {
	h.t.Helper()
	ctx := h.server.WithContext(h.t.Context(), h.client)
	response := h.server.HandleMessage(ctx, json.RawMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	data, err := json.Marshal(response)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(data)
}

// An outcome is a decoded tool result.
type outcome struct {
	Result struct {
		IsError bool `json:"isError"`
		Content []struct {
			Type, Text, Data, URI, MIMEType string
		} `json:"content"`
		StructuredContent json.RawMessage            `json:"structuredContent"`
		Meta              map[string]json.RawMessage `json:"_meta"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

func (h *harness) call(tool, arguments string) outcome {
	h.t.Helper()
	var o outcome
	answer := h.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":"tok"}}`, tool, arguments))
	if err := json.Unmarshal([]byte(answer), &o); err != nil {
		h.t.Fatal(err)
	}
	if o.Error != nil {
		h.t.Fatalf("a JSON-RPC error instead of a tool result: %s", o.Error)
	}
	if len(o.Result.Content) == 0 || o.Result.Content[0].Type != "text" || o.Result.Meta[resultKey] == nil {
		h.t.Fatalf("no text or no result object: %s", answer)
	}
	return o
}

func (o outcome) text() string   { return o.Result.Content[0].Text }
func (o outcome) object() string { return string(o.Result.Meta[resultKey]) }

func TestRun(t *testing.T) {
	f := &fakeSessions{run: func(_ context.Context, req session.RunRequest) (session.RunResult, error) {
		if req.Code != "1+1" || req.Timeout != 2500*time.Millisecond {
			t.Errorf("request: %+v", req)
		}
		value := "2"
		return session.RunResult{
			Success: true, Status: "done", Result: &value, Session: "sbx_a",
			Files: []session.FileRef{{Path: "a b.html", Size: 4, MIMEType: "text/html", URI: "sandbox://sbx_a/a%20b.html"}},
		}, nil
	}}
	h := newHarness(t, f, Options{})
	o := h.call("python_run", `{"code":"1+1","timeout_seconds":"2.5","session":"sbx_a"}`)
	if diff := cmp.Diff(session.Ref{Connection: "conn", Handle: "sbx_a"}, f.ref); diff != "" {
		t.Error(diff)
	}
	if o.Result.IsError || !strings.Contains(o.text(), "Result: 2") || o.Result.StructuredContent != nil {
		t.Errorf("answer: %+v", o)
	}
	link := o.Result.Content[1]
	if link.Type != "resource_link" || link.URI != "sandbox://sbx_a/a%20b.html" || link.MIMEType != "text/plain" {
		t.Errorf("link: %+v", link)
	}
	want := `{"success":true,"status":"done","stdout":"","stderr":"","exit_code":0,"execution_time":0,"result":"2","error":null,"images":0,` +
		`"files":[{"path":"a b.html","size":4,"mime_type":"text/plain","uri":"sandbox://sbx_a/a%20b.html"}],"truncated":false,"restarted":false,"session":"sbx_a"}`
	if diff := cmp.Diff(want, o.object()); diff != "" {
		t.Errorf("result object (-want +got):\n%s", diff)
	}
}

func TestStructured(t *testing.T) {
	o := newHarness(t, &fakeSessions{}, Options{Structured: true}).call("python_run", `{"code":""}`)
	if diff := cmp.Diff(o.object(), string(o.Result.StructuredContent)); diff != "" {
		t.Errorf("structuredContent differs from the result object:\n%s", diff)
	}
}

func TestProgressIsBoundedAndEndsWithTheCall(t *testing.T) {
	var late func(session.Progress)
	f := &fakeSessions{run: func(_ context.Context, req session.RunRequest) (session.RunResult, error) {
		for i := range 101 { // 10 s in steps of 0.1 s
			req.Progress(session.Progress{Elapsed: time.Duration(i) * 100 * time.Millisecond, Bytes: 2048, Last: "at \x1b[31m" + strings.Repeat("x", 500)})
		}
		late = req.Progress
		return session.RunResult{Success: true, Status: "done"}, nil
	}}
	h := newHarness(t, f, Options{})
	h.call("python_run", `{"code":""}`)
	late(session.Progress{Elapsed: time.Hour})
	if got := len(h.client.notifications); got < 30 || got > 41 {
		t.Errorf("%d notifications in 10 s, want at most 4 a second", got)
	}
	n := <-h.client.notifications
	fields := n.Params.AdditionalFields
	message, ok := fields["message"].(string)
	if n.Method != "notifications/progress" || fields["progressToken"] != "tok" || !ok || strings.Contains(message, "\x1b") || len(message) > 300 {
		t.Errorf("notification: %+v", n)
	}
}

func TestPanicIsAnIncident(t *testing.T) {
	f := &fakeSessions{run: func(context.Context, session.RunRequest) (session.RunResult, error) { panic("the secret") }}
	h := newHarness(t, f, Options{})
	o := h.call("python_run", `{"code":""}`)
	if !o.Result.IsError || !strings.Contains(o.text(), "incident") || strings.Contains(o.text()+o.object(), "secret") {
		t.Errorf("answer: %s", o.text())
	}
	if !strings.Contains(h.log.String(), "the secret") || !strings.Contains(h.log.String(), "incident=") {
		t.Errorf("the log does not explain it: %s", h.log.String())
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name string
		err  error
		kind string
		want string
	}{
		{"argument", &session.ArgumentError{Argument: "path", Message: "Name a file beneath /work.\x1b[2J"}, "argument", "Name a file beneath /work."},
		{"busy", &session.BusyError{RunID: "r1", Since: 12 * time.Second}, "busy", `The session has been busy with run r1 for 12s. Call python_wait with run_id "r1"`},
		{"starting", &session.BusyError{}, "busy", `still being started; call again`},
		{"lost", &session.SandboxError{Message: "The sandbox was lost.", Lost: true, Err: errors.New("the cause")}, "sandbox", "The sandbox was lost."},
		{"starting, begun by this call", &session.BusyError{Begun: "sbx_a"}, "busy", `still being started; call again. Pass "sbx_a" as "session" then`},
		{"too many", fmt.Errorf("find: %w", &session.TooManyError{Limit: 4}), "busy", "no room for another session. Wait until"},
		{
			"too many of one's own", &session.TooManyError{Limit: 2, Each: true, Own: []session.Summary{
				{Session: "sbx_a", AgeSeconds: 90, IdleSeconds: 60},
				{Session: "sbx_b", Name: "work", AgeSeconds: 30, IsRunning: true},
			}}, "busy",
			`You have 2 sessions, the most that one client may have (session.max_per_principal). Go on in a session of yours by passing it as "session", ` +
				`or end one that is no longer needed (session_reset with close: true). ` +
				`Yours: sbx_a (idle for 60 s, begun 90 s ago), sbx_b (named work, running code, begun 30 s ago).`,
		},
		{"too much memory", &session.TooManyError{Promised: 48 << 30}, "busy", "those that live may take 48g together. Wait until a session ends, or lower sandbox.memory"},
		{"unknown", session.ErrUnknown, "argument", "does not exist, or has ended. Leave session out"},
		{"ended", &session.EndedError{Why: "it was idle for 30m"}, "argument", "That session has ended: it was idle for 30m. Its variables and files are gone. Call without session to begin a new one."},
		{"before a restart", &session.EndedError{Restarted: true}, "argument", "That session ended when the server restarted."},
		{"no session", &session.NoSessionError{Own: []session.Summary{{Session: "sbx_a"}}}, "argument", `Pass the handle that an earlier answer told as "session", or call python_run without session to begin a new one. Yours: sbx_a`},
		{"no such name", &session.NoSessionError{Name: "work"}, "argument", `No session has the name "work". python_run with it begins one`},
		{"no run", session.ErrNoRun, "argument", "no such run"},
		{"closing", session.ErrClosed, "sandbox", "shutting down"},
		{"no environment", fmt.Errorf("x: %w", sandbox.ErrRootMissing), "sandbox", "biocage env build"},
		{"no engine", fmt.Errorf("x: %w", sandbox.ErrUnavailable), "sandbox", "biocage doctor"},
		{"exhausted", fmt.Errorf("x: %w", sandbox.ErrExhausted), "sandbox", "run out of memory"},
		{"cancelled", context.Canceled, "cancelled", "The call was cancelled."},
		{"unforeseen", errors.New("dial /var/run/secret.sock"), "sandbox", "incident"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, &fakeSessions{err: tt.err}, Options{})
			for _, call := range [][2]string{
				{"python_run", `{"code":"x"}`},
				{"python_wait", `{}`},
				{"file_write", `{"path":"a","content":""}`},
				{"file_read", `{"path":"a"}`},
				{"file_list", `{}`},
				{"file_expose", `{"host_path":"/a"}`},
				{"session_reset", `{}`},
				{"session_info", `{}`},
			} {
				o := h.call(call[0], call[1])
				if !o.Result.IsError || !strings.Contains(o.text(), tt.want) || !strings.Contains(o.object(), `"kind":"`+tt.kind+`"`) {
					t.Errorf("%s: %s\n%s", call[0], o.text(), o.object())
				}
				if strings.Contains(o.text(), "secret") || strings.Contains(o.text(), "\x1b") {
					t.Errorf("%s leaks: %q", call[0], o.text())
				}
			}
		})
	}
}

func TestRefusedArgumentsReachNobody(t *testing.T) {
	f := &fakeSessions{run: func(context.Context, session.RunRequest) (session.RunResult, error) {
		t.Error("the call went through")
		return session.RunResult{}, nil
	}}
	h := newHarness(t, f, Options{MaxTimeout: time.Minute})
	tests := [][3]string{
		{"python_run", `{"code":"x","timeout":5}`, "did you mean timeout_seconds?"},
		{"python_run", `{"code":"x","timeout_seconds":61}`, "timeout_seconds must be a number between 0.1 and 60."},
		{"python_run", `{}`, "python_run needs the argument code."},
		{"file_write", `{"path":"a"}`, "needs either content or content_base64"},
		{"file_write", `{"path":"a","content":"x","content_base64":"eA=="}`, "needs either content or content_base64"},
		{"file_write", `{"path":"a","content_base64":"e$"}`, "not valid base64"},
		{"file_expose", `{"host_path":"/a","mode":"x"}`, "mode must be ro or rw."},
		{"file_read", `{"path":"a","offset":-1}`, "offset must be a whole number of at least 0."},
		{"session_info", `{"x":1}`, "It takes: session."},
	}
	for _, tt := range tests {
		o := h.call(tt[0], tt[1])
		if !o.Result.IsError || !strings.Contains(o.text(), tt[2]) {
			t.Errorf("%s %s: %s", tt[0], tt[1], o.text())
		}
	}
	if f.write.Path != "" || len(f.reads) > 0 || f.expose.HostPath != "" {
		t.Error("a refused call went through")
	}
}

func TestFileWrite(t *testing.T) {
	for _, tt := range []struct{ arguments, want string }{
		{`{"path":"a","content":"hé\r\n"}`, "hé\r\n"},
		{`{"path":"a","content":""}`, ""},
		{`{"path":"a","content_base64":"AP8Q\nAA=="}`, "\x00\xff\x10\x00"},
		{`{"path":"a","content_base64":"AP8QAA"}`, "\x00\xff\x10\x00"},
	} {
		f := &fakeSessions{}
		o := newHarness(t, f, Options{}).call("file_write", tt.arguments)
		if o.Result.IsError || string(f.write.Data) != tt.want {
			t.Errorf("%s: wrote %q, want %q: %s", tt.arguments, f.write.Data, tt.want, o.text())
		}
	}
}

func TestFileRead(t *testing.T) {
	read := func(t *testing.T, f *fakeSessions, arguments string) (outcome, fileReadResult) {
		t.Helper()
		o := newHarness(t, f, Options{}).call("file_read", arguments)
		var res fileReadResult
		if err := json.Unmarshal([]byte(o.object()), &res); err != nil || o.Result.IsError {
			t.Fatalf("%v: %s", err, o.text())
		}
		return o, res
	}
	t.Run("text", func(t *testing.T) {
		o, res := read(t, &fakeSessions{file: []byte("a\x1b[31mb"), mime: "text/plain"}, `{"path":"x.txt"}`)
		if *res.Content != "a\x1b[31mb" || res.NextOffset != 0 || o.text() != "x.txt: 7 bytes (text/plain), as text:\nab" {
			t.Errorf("%q, %+v", o.text(), res)
		}
	})
	t.Run("parts put together are the file", func(t *testing.T) {
		file := []byte(strings.Repeat("é😀x", 50))
		var got strings.Builder
		for offset := int64(0); ; {
			_, res := read(t, &fakeSessions{file: file, mime: "text/plain"}, fmt.Sprintf(`{"path":"x","offset":%d,"limit":10}`, offset))
			got.WriteString(*res.Content)
			if offset = res.NextOffset; offset == 0 {
				break
			}
		}
		if got.String() != string(file) {
			t.Errorf("got %q", got.String())
		}
	})
	t.Run("binary", func(t *testing.T) {
		o, res := read(t, &fakeSessions{file: []byte{0, 1, 255}, mime: "application/zip"}, `{"path":"x.zip"}`)
		if res.Content != nil || *res.ContentBase64 != "AAH/" || !strings.HasSuffix(o.text(), "as base64:\nAAH/") {
			t.Errorf("%q, %+v", o.text(), res)
		}
	})
	t.Run("a large image is shown", func(t *testing.T) {
		file := encodePNG(t, noise(t, 200, 200))
		o, res := read(t, &fakeSessions{file: file, mime: "image/png"}, `{"path":"x.png"}`)
		data, err := base64.StdEncoding.DecodeString(o.Result.Content[1].Data)
		if err != nil || !bytes.Equal(data, file) || res.NextOffset != defaultRead {
			t.Errorf("%v, %d bytes, %+v", err, len(data), res.NextOffset)
		}
	})
	t.Run("what escapes badly is cut", func(t *testing.T) {
		f := &fakeSessions{file: bytes.Repeat([]byte("\"\x01"), 200_000), mime: "text/plain"}
		answer := newHarness(t, f, Options{Structured: true}).request("tools/call", `{"name":"file_read","arguments":{"path":"x","limit":262144}}`)
		if len(answer) > 900_000 || !strings.Contains(answer, `"next_offset":`) || strings.Contains(answer, `"isError":true`) {
			t.Errorf("%d bytes: %.200s", len(answer), answer)
		}
	})
}

func TestFileList(t *testing.T) {
	entries := make([]session.Entry, 2000)
	for i := range entries {
		entries[i] = session.Entry{Path: fmt.Sprintf("%04d-%s", i, strings.Repeat("\"", 200)), Type: "file", Size: 5}
	}
	entries[0] = session.Entry{Path: "dir\nx", Type: "directory"}
	h := newHarness(t, &fakeSessions{entries: entries}, Options{Structured: true})
	answer := h.request("tools/call", `{"name":"file_list","arguments":{"recursive":"true"}}`)
	if len(answer) > 900_000 || !strings.Contains(answer, `"truncated":true`) {
		t.Errorf("%d bytes", len(answer))
	}
	if o := h.call("file_list", `{}`); !strings.Contains(o.text(), `dir\nx/`) || len(o.text()) > maxText {
		t.Errorf("%d bytes: %.200s", len(o.text()), o.text())
	}
	if o := newHarness(t, &fakeSessions{}, Options{}).call("file_list", `{}`); o.object() != `{"entries":[],"truncated":false}` {
		t.Errorf("an empty directory: %s", o.object())
	}
}

func TestExposeResetInfo(t *testing.T) {
	f := &fakeSessions{info: session.Info{
		Session: "sbx_a", Engine: "gvisor", Environment: "default", MemoryBytes: 120_000_000, IdleSeconds: 3, Limits: map[string]any{"cpus": 2},
		Variables: []session.Variable{{Name: "x\x1b[2J", Type: "int", Summary: "1\n2"}},
	}}
	h := newHarness(t, f, Options{})
	o := h.call("file_expose", `{"host_path":"/srv/x","mode":"rw","sandbox_path":"/data/x"}`)
	if f.expose.Mode != sandbox.ReadWrite || o.text() != "/srv/x is at /data/x, for reading and writing; changes on the host show at once." {
		t.Errorf("expose: %+v: %s", f.expose, o.text())
	}
	if o := h.call("session_reset", `{"keep_files":true}`); !f.reset.KeepFiles || !strings.Contains(o.text(), "kept") {
		t.Errorf("reset: %s", o.text())
	}
	o = h.call("session_info", `{}`)
	want := "Session sbx_a: idle for 3.00 s, memory 120.0 MB, engine gvisor, environment default.\nLimits: cpus 2\nVariables:\nx: int = 1 2"
	if o.text() != want || !strings.Contains(o.object(), `"exposed_paths":[]`) {
		t.Errorf("info: %s\n%s", o.text(), o.object())
	}
	for raw, want := range map[string]time.Duration{
		`{}`:                                      0, // as configured
		`{"wait_seconds":null}`:                   0,
		`{"wait_seconds":0}`:                      -1, // not at all
		`{"wait_seconds":"0"}`:                    -1,
		`{"wait_seconds":1e-12}`:                  1,
		`{"wait_seconds":0.5}`:                    time.Second / 2,
		`{"wait_seconds":0,"interrupt":true}`:     0,
		`{"wait_seconds":3600,"interrupt":false}`: time.Hour,
	} {
		if o := h.call("python_wait", raw); o.Result.IsError || f.wait.Wait != want {
			t.Errorf("python_wait %s waits %s, want %s", raw, f.wait.Wait, want)
		}
	}
	if o := h.call("python_wait", `{"run_id":"r1","wait_seconds":2,"interrupt":true}`); o.Result.IsError || f.wait.Wait != 2*time.Second || !f.wait.Interrupt || f.wait.RunID != "r1" {
		t.Errorf("wait: %+v", f.wait)
	}
}
