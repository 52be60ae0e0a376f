package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// get asks for an address with a token; "" is none.
func (c *caller) get(ctx context.Context, path, token string) (status int, body io.ReadCloser) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, response.Body
}

// figure gives the line of one figure, "" when it is not there.
func (c *caller) figure(name string) string {
	c.t.Helper()
	status, body := c.get(c.t.Context(), "/metrics", c.token)
	defer body.Close()
	text, err := io.ReadAll(body)
	if status != http.StatusOK || err != nil {
		c.t.Fatalf("/metrics: %d %v: %s", status, err, text)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// Figures are behind the token, count what is there, and what counts answers
// lets each event through at once.
func TestServeHTTPCounts(t *testing.T) {
	s, c := startHTTP(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor")
	for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong-0123456789abcdef-0123456789": http.StatusUnauthorized, secondToken: http.StatusOK} {
		status, body := c.get(t.Context(), "/metrics", token)
		text, err := io.ReadAll(body)
		body.Close()
		if status != want || err != nil || (want == http.StatusOK) != strings.Contains(string(text), "biocage_build_info") {
			t.Errorf("with the token %q: %d %v: %s", token, status, err, text)
		}
	}
	c.begin()
	c.expectRun("1", `"success":true`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, stream := c.get(ctx, "/sse", c.token)
	if line, err := bufio.NewReader(stream).ReadString('\n'); status != http.StatusOK || err != nil || !strings.HasPrefix(line, "event: endpoint") {
		t.Errorf("the stream begins with %d %q %v", status, line, err)
	}
	for _, want := range []string{
		"biocage_protocol_sessions 2", "biocage_sessions 1", `biocage_http_requests_total{status="401"} 2`,
		`biocage_tool_call_seconds_count{outcome="ok",tool="python_run"} 1`, `biocage_cell_seconds_count{outcome="ok"} 1`,
	} {
		name, _, _ := strings.Cut(want, " ")
		if got := c.figure(name); got != want {
			t.Errorf("%q, want %s", got, want)
		}
	}
	stream.Close()
	c.awaitFigure("biocage_protocol_sessions 1")

	// The run ends only when its progress has been read.
	body := runMessage("2", "import time\nprint('here', flush=True); time.sleep(600)", "", `,"_meta":{"progressToken":"p"}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + c.token, "Mcp-Session-Id": c.session,
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	for events := bufio.NewReader(response.Body); ; {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatalf("no progress came while the code ran: %v", err)
		}
		if strings.Contains(line, "notifications/progress") {
			break
		}
	}
	response.Body.Close()
	c.awaitFigure("biocage_cells_running 0")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
}

// awaitFigure waits until a figure has a value.
func (c *caller) awaitFigure(want string) {
	c.t.Helper()
	name, _, _ := strings.Cut(want, " ")
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if got = c.figure(name); got == want {
			return
		}
	}
	c.t.Errorf("%q, want %s", got, want)
}

// Two tokens are two principals, whom the audit log names; what belongs to one
// is of no use to the other, and each has a quota.
func TestServeHTTPTellsPrincipalsApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s, ada := startHTTP(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor", "BIOCAGE_LOG_AUDIT="+path,
		"BIOCAGE_SESSION_MAX=5", "BIOCAGE_SESSION_MAX_PER_PRINCIPAL=2", "BIOCAGE_SESSION_WARM=0")
	bob := &caller{t: t, url: ada.url, token: secondToken}
	ada.begin()
	bob.begin()
	handleOf := func(text string) string {
		_, rest, _ := strings.Cut(text, `"session":"`)
		handle, _, _ := strings.Cut(rest, `"`)
		return handle
	}
	hers := handleOf(ada.expectRun("who = 'ada'", `"success":true`))
	his := handleOf(bob.expectRun("who = 'bob'", `"success":true`))
	if hers == "" || his == "" || hers == his {
		t.Fatalf("the handles are %q and %q", hers, his)
	}
	for _, foreign := range []struct {
		who    *caller
		handle string
	}{{ada, his}, {bob, hers}} {
		_, theirs, _ := foreign.who.post(t.Context(), runMessage("3", "who", foreign.handle, ""))
		_, nobodys, _ := foreign.who.post(t.Context(), runMessage("3", "who", foreign.handle[:len(foreign.handle)-4]+"AAAA", ""))
		if !strings.Contains(theirs, `"isError":true`) || strings.Contains(theirs, "'ada'") || strings.Contains(theirs, "'bob'") {
			t.Errorf("a foreign handle: %s", theirs)
		}
		if strings.ReplaceAll(theirs, foreign.handle, "") != strings.ReplaceAll(nobodys, foreign.handle[:len(foreign.handle)-4]+"AAAA", "") {
			t.Errorf("a foreign handle differs from one that nobody has:\n%s\n%s", theirs, nobodys)
		}
	}
	id := ada.session
	ada.session = bob.session
	if status, text, _ := ada.post(t.Context(), runMessage("4", "who", "", "")); status != http.StatusNotFound {
		t.Errorf("another's protocol session: %d %s", status, text)
	}
	ada.session = id
	ada.expectRun("who", "'ada'")
	// A name is its principal's: both may use the same.
	for _, who := range []*caller{ada, bob} {
		if _, text, _ := who.post(t.Context(), runMessage("6", "'lab' in globals()", "lab", "")); !strings.Contains(text, `"result":"False"`) {
			t.Errorf("a named session: %s", text)
		}
		if _, text, _ := who.post(t.Context(), runMessage("6", "lab = 1", "lab", "")); !strings.Contains(text, `"success":true`) {
			t.Errorf("a named session again: %s", text)
		}
	}
	more := &caller{t: t, url: ada.url, token: firstToken}
	more.begin()
	if _, text, _ := more.post(t.Context(), runMessage("5", "1", "", "")); !strings.Contains(text, `"isError":true`) || !strings.Contains(text, "session") {
		t.Errorf("beyond the quota: %s", text)
	}
	bob.expectRun("who", "'bob'")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)

	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{}
	for text := range bytes.Lines(data) {
		var line struct{ Principal, Outcome, Refusal string }
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
		calls[line.Principal] = append(calls[line.Principal], cmp.Or(line.Refusal, line.Outcome))
	}
	want := map[string][]string{
		"ada": {"ok", "unknown_session", "unknown_session", "ok", "ok", "ok", "too_many"},
		"bob": {"ok", "unknown_session", "unknown_session", "ok", "ok", "ok"},
	}
	if diff := gocmp.Diff(want, calls); diff != "" {
		t.Errorf("%s\n%s", diff, data)
	}
}
