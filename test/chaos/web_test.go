//go:build linux

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mcp "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	protocol "github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/mcptest"
	"github.com/biocypher/biocage-mcp/internal/remains"
)

// A web is a server over HTTP.
type web struct {
	client
	url    string
	tokens []string
	cmd    *exec.Cmd
}

// startWeb runs a server over HTTP that knows tokens.
func (l lab) startWeb(t *testing.T, tokens []string) *web {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	dir := temp(t)
	w := &web{url: "http://" + address, tokens: tokens}
	config := l.config(t, map[string]any{"server": map[string]any{"tokens": tokens}})
	w.cmd = exec.Command(l.binary, "serve", "--transport", "http", "--listen", address, "--config", config)
	w.cmd.Env = append(slices.Clone(l.env), "TMPDIR="+dir)
	log, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	w.cmd.Stderr = log
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.watch = remains.New(remains.Options{
		PID: w.cmd.Process.Pid, Docker: l.engine == "docker", Env: l.env,
		Dirs: remains.RunDirs(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"), dir),
	})
	t.Cleanup(func() { w.stop(t, log.Name()) })
	for deadline := time.Now().Add(answerWithin); ; time.Sleep(100 * time.Millisecond) {
		if body, err := w.get(t.Context(), "/healthz"); err == nil && strings.Contains(body, "ok") {
			return w
		}
		if time.Now().After(deadline) {
			t.Fatal("the server over HTTP does not answer")
		}
	}
}

func (w *web) stop(t *testing.T, log string) {
	t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("the server over HTTP did not end well: %v", err)
	}
	w.nothingLeft(t)
	if text, err := os.ReadFile(log); t.Failed() && err == nil {
		t.Logf("the log ends:\n%s", text[max(0, len(text)-6000):])
	}
}

func (w *web) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+w.tokens[0])
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

// A surfer is a client over HTTP.
type surfer struct{ client *mcp.Client }

// connect begins a protocol session with one of the tokens.
func (w *web) connect(t *testing.T, token int) surfer {
	t.Helper()
	c, err := mcp.NewStreamableHttpClient(w.url+"/mcp", transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + w.tokens[token]}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var hello protocol.InitializeRequest
	hello.Params.ClientInfo = protocol.Implementation{Name: "soak", Version: "1"}
	hello.Params.ProtocolVersion = protocol.LATEST_LEGACY_PROTOCOL_VERSION
	if _, err := c.Initialize(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have gone
	return surfer{c}
}

// Tool implements caller.
func (s surfer) Tool(ctx context.Context, name string, args map[string]any) (*mcptest.Answer, error) {
	var request protocol.CallToolRequest
	request.Params.Name, request.Params.Arguments = name, args
	res, err := s.client.CallTool(ctx, request)
	if err != nil {
		return nil, err
	}
	answer := &mcptest.Answer{IsError: res.IsError}
	for _, content := range res.Content {
		if text, ok := content.(protocol.TextContent); ok {
			answer.Content = append(answer.Content, mcptest.Block{Type: "text", Text: text.Text})
		}
	}
	if res.Meta == nil {
		return answer, nil
	}
	if answer.Meta, err = json.Marshal(res.Meta.AdditionalFields[mcptest.ResultKey]); err != nil {
		return nil, err
	}
	answer.Line = answer.Meta
	return answer, json.Unmarshal(answer.Meta, &answer.Object)
}

// figures are what must not grow.
func figures() []string {
	return []string{"process_resident_memory_bytes", "process_open_fds", "go_goroutines", "biocage_sessions", "children"}
}

// sample reads the server's figures until a time.
func (w *web) sample(t *testing.T, until time.Time) []map[string]float64 {
	t.Helper()
	var samples []map[string]float64
	for time.Now().Before(until) {
		time.Sleep(min(2*time.Second, time.Until(until)+time.Millisecond))
		text, err := w.get(t.Context(), "/metrics")
		if err != nil {
			t.Errorf("metrics: %v", err)
			return samples
		}
		one := map[string]float64{"children": float64(children(t, w.cmd.Process.Pid))}
		for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
			name, figure, _ := strings.Cut(lines.Text(), " ")
			if number, err := strconv.ParseFloat(figure, 64); err == nil && slices.Contains(figures(), name) {
				one[name] = number
			}
		}
		samples = append(samples, one)
	}
	return samples
}

// children counts the processes that the server has started.
func children(t *testing.T, parent int) int {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, thread := range threads {
		if raw, err := os.ReadFile(thread); err == nil { // else the thread has ended
			count += len(strings.Fields(string(raw)))
		}
	}
	return count
}

// middle is the median of a figure in a part of the samples.
func middle(samples []map[string]float64, name string) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, s[name])
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)/2]
}

// parts are the second quarter and the last: at first everything grows.
func parts(samples []map[string]float64) (early, late []map[string]float64) {
	quarter := len(samples) / 4
	return samples[quarter : 2*quarter], samples[3*quarter:]
}

func trend(samples []map[string]float64) string {
	early, late := parts(samples)
	var text strings.Builder
	for _, name := range figures() {
		fmt.Fprintf(&text, "%-30s %12.0f then %12.0f\n", name, middle(early, name), middle(late, name))
	}
	return text.String()
}

// flat checks that nothing has grown by more than chance.
func flat(t *testing.T, samples []map[string]float64) {
	t.Helper()
	if len(samples) < 8 {
		t.Fatalf("only %d samples were taken", len(samples))
	}
	early, late := parts(samples)
	for name, room := range map[string]float64{
		"process_resident_memory_bytes": 48 << 20, "process_open_fds": 40, "go_goroutines": 60, "biocage_sessions": 0, "children": 4,
	} {
		if before, after := middle(early, name), middle(late, name); before == 0 && name != "children" || after > before+room {
			t.Errorf("%s was %.0f and is %.0f", name, before, after)
		}
	}
}

// report lists what was done and how long the slowest took.
func (s *tally) report() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(s.answers)) {
		fmt.Fprintf(&text, "%-30s %6d answers, the slowest after %.1f s\n", what, s.answers[what], s.slowest[what].Seconds())
	}
	fmt.Fprintf(&text, "%-30s %6d\n", "wrong answers", len(s.wrong))
	return text.String()
}
