package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/audit"
	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

// canary comes in everything that a client says.
const canary = "CANARY7349"

// sessions answers as a call's code tells it to.
type sessions struct{ tools.Sessions }

func (sessions) Run(ctx context.Context, _ session.Ref, req session.RunRequest) (session.RunResult, error) {
	res := session.RunResult{Success: true, Status: session.StatusDone, Session: "sbx_" + canary, Stdout: canary}
	switch strings.TrimPrefix(req.Code, canary) {
	case "panic":
		panic(canary)
	case "fail":
		return session.RunResult{}, errors.New("unforeseen " + canary)
	case "busy":
		return session.RunResult{}, &session.BusyError{Session: "sbx_" + canary}
	case "cancelled":
		<-ctx.Done()
		return session.RunResult{}, context.Cause(ctx)
	case "exit":
		res.Success, res.ExitCode = false, 3
		res.Error = &session.RunError{Kind: session.KindException, Message: canary}
	}
	return res, nil
}

// A rig is the tools with an audit log.
type rig struct {
	t      *testing.T
	path   string
	audit  *audit.Log
	server *server.MCPServer
	log    *bytes.Buffer
}

func newRig(t *testing.T, change func(*audit.Options)) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "audit.jsonl"), log: &bytes.Buffer{}}
	opts := audit.Options{Path: r.path, PID: 7, Logger: slog.New(slog.NewTextHandler(r.log, nil))}
	if change != nil {
		change(&opts)
	}
	var err error
	if r.audit, err = audit.Open(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.audit.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.server = server.NewMCPServer("test", "1")
	r.server.AddTools(tools.All(sessions{}, tools.Options{Observers: []tools.Observer{r.audit}})...)
	return r
}

// call gives a tool's answer.
func (r *rig) call(ctx context.Context, tool string, arguments map[string]any) *mcp.CallToolResult {
	r.t.Helper()
	message, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments},
	})
	if err != nil {
		r.t.Error(err)
	}
	response, _ := r.server.HandleMessage(ctx, message).(mcp.JSONRPCResponse)
	result, ok := response.Result.(*mcp.CallToolResult)
	if !ok {
		r.t.Errorf("the result is %#v", response.Result)
		return &mcp.CallToolResult{}
	}
	return result
}

func (r *rig) run(code string) *mcp.CallToolResult {
	return r.call(r.t.Context(), "python_run", map[string]any{"code": canary + code})
}

// lines reads the file; every line must be whole.
func lines(t *testing.T, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		t.Errorf("the last line lacks its end: %q", data)
	}
	var all []map[string]any
	for text := range bytes.Lines(data) {
		var line map[string]any
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		all = append(all, line)
	}
	return all
}

func TestEveryCallHasOneLineWithoutItsContent(t *testing.T) {
	for _, tc := range []struct {
		name, tool string
		arguments  map[string]any
		want       map[string]any
	}{
		{"done", "python_run", map[string]any{"code": canary}, map[string]any{"outcome": "ok", "session": "506ba7d8d38c"}},
		{"the code's fault", "python_run", map[string]any{"code": canary + "exit"}, map[string]any{"outcome": "exception", "exit_code": 3.0}},
		{"a panic", "python_run", map[string]any{"code": canary + "panic"}, map[string]any{"outcome": "panic"}},
		{"unforeseen", "python_run", map[string]any{"code": canary + "fail"}, map[string]any{"outcome": "internal", "refusal": "internal"}},
		{"busy", "python_run", map[string]any{"code": canary + "busy"}, map[string]any{"outcome": "busy", "refusal": "busy"}},
		{"cancelled", "python_run", map[string]any{"code": canary + "cancelled"}, map[string]any{"outcome": "cancelled", "refusal": "cancelled", "exit_code": 130.0}},
		{"an unknown argument", "python_run", map[string]any{canary: 1}, map[string]any{"outcome": "argument", "refusal": "argument"}},
		{"arguments of a wrong type", "python_run", map[string]any{"code": []int{1}, "session": 5}, map[string]any{"outcome": "argument"}},
		{"a foreign handle", "python_run", map[string]any{"code": 1, "session": "sbx_" + canary}, map[string]any{"session": "506ba7d8d38c"}},
		{"another tool", "file_read", map[string]any{"path": "/" + canary, "offset": canary}, map[string]any{"outcome": "argument", "tool": "file_read"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			if tc.name == "cancelled" {
				cancel()
			}
			defer cancel()
			r.call(ctx, tc.tool, tc.arguments)
			got := lines(t, r.path)
			if len(got) != 1 {
				t.Fatalf("%d lines, want one: %v", len(got), got)
			}
			for key, want := range tc.want {
				if got[0][key] != want {
					t.Errorf("%s is %v, want %v", key, got[0][key], want)
				}
			}
			if text, _ := os.ReadFile(r.path); bytes.Contains(text, []byte(canary)) {
				t.Errorf("the line tells what the client said: %s", text)
			}
			for _, key := range []string{"time", "request", "tool", "arguments_sha256"} {
				if text, _ := got[0][key].(string); text == "" {
					t.Errorf("%s is missing: %v", key, got[0])
				}
			}
			if in, out := got[0]["bytes_in"].(float64), got[0]["bytes_out"].(float64); in <= 2 || out < 50 || got[0]["pid"] != 7.0 {
				t.Errorf("bytes in %v, out %v, pid %v", in, out, got[0]["pid"])
			}
		})
	}
}

func TestOneFileOfSeveralServersHasWholeLines(t *testing.T) {
	r := newRig(t, nil)
	other := newRig(t, func(o *audit.Options) { o.Path = r.path })
	const each = 200
	var wg sync.WaitGroup
	for _, rig := range []*rig{r, other, r, other} {
		wg.Go(func() {
			for range each {
				rig.run("")
			}
		})
	}
	wg.Wait()
	seen := map[any]bool{}
	for _, line := range lines(t, r.path) {
		seen[line["request"]] = true
	}
	if len(seen) != 4*each {
		t.Errorf("%d requests have a line, want %d", len(seen), 4*each)
	}
}

func TestTheHashIsOfTheMeaning(t *testing.T) {
	r := newRig(t, nil)
	for _, arguments := range []string{
		`{"code": "1", "timeout_seconds": 5}`, `{"timeout_seconds":5,"code":"\u0031"}`, `{"code":"2","timeout_seconds":5}`,
	} {
		r.server.HandleMessage(t.Context(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"python_run","arguments":`+arguments+`}}`))
	}
	got := lines(t, r.path)
	if got[0]["arguments_sha256"] != got[1]["arguments_sha256"] || got[0]["arguments_sha256"] == got[2]["arguments_sha256"] {
		t.Errorf("the hashes are %v", got)
	}
}

func TestCodeOnlyWhenAskedForAndBounded(t *testing.T) {
	r := newRig(t, func(o *audit.Options) { o.Content = true })
	r.run("")
	r.run(strings.Repeat("ä", 100_000))
	r.call(t.Context(), "file_write", map[string]any{"path": "/x", "content": canary})
	got := lines(t, r.path)
	if got[0]["code"] != canary || got[0]["code_cut"] != nil {
		t.Errorf("the first line is %v", got[0])
	}
	code, _ := got[1]["code"].(string)
	if len(code) < 8<<10-4 || len(code) > 8<<10 || got[1]["code_cut"] != true || !strings.HasSuffix(code, "ä") {
		t.Errorf("%d bytes of long code, cut %v", len(code), got[1]["code_cut"])
	}
	if _, is := got[2]["code"]; is {
		t.Errorf("a call without code has some: %v", got[2])
	}
}

func TestAMovedFileIsLeftAndAnotherOneBegun(t *testing.T) {
	r := newRig(t, nil)
	r.run("")
	if err := os.Rename(r.path, r.path+".1"); err != nil {
		t.Fatal(err)
	}
	r.run("")
	r.run("")
	if err := os.Truncate(r.path, 0); err != nil { // as copytruncate does
		t.Fatal(err)
	}
	r.run("")
	if old, now := lines(t, r.path+".1"), lines(t, r.path); len(old) != 1 || len(now) != 1 {
		t.Errorf("%d lines moved away and %d here, want 1 and 1", len(old), len(now))
	}
	if info, err := os.Stat(r.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

func TestATornLineIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte(`{"time":`), 0o600); err != nil {
		t.Fatal(err)
	}
	newRig(t, func(o *audit.Options) { o.Path = path }).run("")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if torn, line, _ := strings.Cut(string(data), "\n"); torn != `{"time":` || !json.Valid([]byte(line)) {
		t.Errorf("the file has %q", data)
	}
}

func TestCallsThatStillRunAtTheEndHaveALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go r.call(ctx, "python_run", map[string]any{"code": canary + "cancelled"})
		synctest.Wait()
		if err := r.audit.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if got := lines(t, r.path); len(got) != 1 || got[0]["outcome"] != audit.KindEnded {
			t.Errorf("the lines are %v", got)
		}
		if result := r.run("exit"); !result.IsError || len(lines(t, r.path)) != 1 {
			t.Error("a call after the end was served")
		}
	})
}

func TestAFileThatCannotBeWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{
		"a directory":      dir,
		"no such folder":   filepath.Join(dir, "missing", "a"),
		"a device":         "/dev/null",
		"beneath a device": "/dev/null/a",
	} {
		_, err := audit.Open(t.Context(), audit.Options{Path: path})
		if err == nil || !strings.Contains(err.Error(), "log.audit") || !strings.Contains(err.Error(), "name a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where the file's folder is gone no line can be written.
func TestALogThatCannotBeWritten(t *testing.T) {
	for _, required := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(o *audit.Options) { o.Required = required })
			away := filepath.Dir(r.path) + "-away"
			if err := os.Rename(filepath.Dir(r.path), away); err != nil {
				t.Fatal(err)
			}
			var refused []bool
			for range 3 {
				refused = append(refused, r.run("").IsError)
				time.Sleep(30 * time.Second)
			}
			if diff := cmp.Diff([]bool{false, required, required}, refused); diff != "" {
				t.Errorf("required %v: refused (-want +got):\n%s", required, diff)
			}
			if told := strings.Count(r.log.String(), "audit lines could not be written"); told != 2 {
				t.Errorf("told %d times in a minute and a half, want 2:\n%s", told, r.log)
			}
			if err := os.Rename(away, filepath.Dir(r.path)); err != nil {
				t.Fatal(err)
			}
			r.run("")
			if r.run("").IsError {
				t.Error("refused although the log can be written again")
			}
			if got := lines(t, r.path); len(got) != 2 || got[0]["lost"] != 3.0 || got[1]["lost"] != nil {
				t.Errorf("required %v: the lines are %v", required, got)
			}
		})
	}
}
