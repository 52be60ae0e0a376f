//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/mcptest"
)

// call calls a tool; it must be answered in time.
func (c *client) call(t *testing.T, tool string, args map[string]any) *mcptest.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	answer, err := c.Tool(ctx, tool, args)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if answer.RPC != nil {
		t.Fatalf("%s: an error of the protocol: %v", tool, answer.RPC)
	}
	return answer
}

func (c *client) run(t *testing.T, code string) *mcptest.Answer {
	t.Helper()
	return c.call(t, "python_run", map[string]any{"code": code, "timeout_seconds": 10})
}

// gives checks that code has a value, and that no loss is told.
func (c *client) gives(t *testing.T, code, want string) {
	t.Helper()
	got := c.run(t, code)
	if value(got) != want || got.Object.Restarted {
		t.Fatalf("%s gives %q, want %q: %s", code, value(got), want, got.Text())
	}
}

func value(a *mcptest.Answer) string {
	if a.Object.Result == nil {
		return ""
	}
	return *a.Object.Result
}

// clear checks that an answer which is a failure says so in whole sentences.
func clear(t *testing.T, a *mcptest.Answer) {
	t.Helper()
	text := a.Text()
	if a.Refused() && (len(text) < 20 || !strings.Contains(text, ".") || strings.Contains(text, "Internal error") || strings.Contains(text, "panic")) {
		t.Errorf("the failure is not clear: %q", text)
	}
}

// works calls until code runs again; each failure on the way must be clear. It
// gives all answers' texts together, to look for what was told.
func (c *client) works(t *testing.T) string {
	t.Helper()
	var told strings.Builder
	for begun := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		a := c.run(t, "6 * 7")
		told.WriteString(a.Text() + "\n" + a.Object.RestartReason + "\n")
		if value(a) == "42" {
			t.Logf("it works again after %.1f s", time.Since(begun).Seconds())
			return told.String()
		}
		clear(t, a)
		if time.Since(begun) > worksWithin {
			t.Fatalf("nothing works after %v; it said:\n%s", worksWithin, told.String())
		}
	}
}

// lostOrKept checks that x and the file are there, or that the answers so far
// have told that they are gone.
func (c *client) lostOrKept(t *testing.T, told string) {
	t.Helper()
	kept := value(c.run(t, "x")) == "41"
	file := !c.call(t, "file_read", map[string]any{"path": "kept.txt"}).Refused()
	if !kept && !strings.Contains(told, "ariables") {
		t.Errorf("variables were lost untold:\n%s", told)
	}
	if !file && !strings.Contains(told, "files of the workspace are gone") {
		t.Errorf("files were lost untold:\n%s", told)
	}
	t.Logf("variables kept: %t, files kept: %t", kept, file)
}

// prepare gives the session a variable and a file.
func (c *client) prepare(t *testing.T) {
	t.Helper()
	c.gives(t, "x = 41; x", "41")
	if a := c.call(t, "file_write", map[string]any{"path": "kept.txt", "content": "kept"}); a.Refused() {
		t.Fatal(a.Text())
	}
}

// sandbox is the id of the session's sandbox.
func (c *client) sandbox(t *testing.T) string {
	t.Helper()
	var info struct {
		SandboxID string `json:"sandbox_id"`
	}
	if err := json.Unmarshal(c.call(t, "session_info", nil).Meta, &info); err != nil {
		t.Fatal(err)
	}
	if info.SandboxID == "" {
		t.Fatal("the session has no sandbox")
	}
	c.watch.Note(info.SandboxID)
	return info.SandboxID
}
