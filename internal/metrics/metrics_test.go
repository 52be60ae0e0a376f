package metrics_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/biocypher/biocage-mcp/internal/metrics"
	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

const canary = "CANARY5120"

// sessions says the canary wherever a client could make it.
type sessions struct{ tools.Sessions }

func (sessions) Run(_ context.Context, ref session.Ref, req session.RunRequest) (session.RunResult, error) {
	if req.Code == canary {
		return session.RunResult{}, &session.BusyError{Session: ref.Handle}
	}
	return session.RunResult{Session: canary, Error: &session.RunError{Kind: session.KindException, Type: canary}}, nil
}

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("the status is %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestFigures(t *testing.T) {
	m := metrics.New("1.2.3", func() session.Counts { return session.Counts{Sessions: 5, Running: 3, Ready: 1} })
	s := server.NewMCPServer("test", "1")
	s.AddTools(tools.All(sessions{}, tools.Options{Observers: []tools.Observer{m}})...)
	for _, arguments := range []string{`{"code":"x"}`, `{"code":"` + canary + `","session":"` + canary + `"}`, `{"` + canary + `":1}`} {
		s.HandleMessage(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"python_run","arguments":`+arguments+`}}`))
	}
	s.HandleMessage(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+canary+`"}}`))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			m.ConnectionBegan()
			m.ConnectionBegan()
			m.ConnectionEnded()
			m.SessionBegan()
			m.SessionEnded(session.EndIdle)
			m.CellEnded("ok", 30*time.Millisecond, false)
			m.CellEnded(session.KindDied, time.Second, true)
			m.SandboxMade(true, time.Second)
			m.SandboxMade(false, time.Minute)
			m.PoolAsked(true)
			m.PoolAsked(false)
		})
	}
	wg.Wait()
	handler := m.Requests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/teapot" {
			w.WriteHeader(http.StatusTeapot)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}))
	for _, path := range []string{"/" + canary, "/teapot"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	}

	text := scrape(t, m)
	for _, want := range []string{
		"biocage_sessions 5", "biocage_protocol_sessions 4", "biocage_cells_running 3", "biocage_pool_ready 1", `biocage_build_info{version="1.2.3"} 1`,
		"biocage_sessions_began_total 4", `biocage_sessions_ended_total{reason="idle"} 4`,
		`biocage_cell_seconds_count{outcome="ok"} 4`, `biocage_cell_seconds_count{outcome="died"} 4`, "biocage_interpreter_restarts_total 4",
		`biocage_sandbox_start_seconds_count{ok="false"} 4`, `biocage_pool_takes_total{result="hit"} 4`, `biocage_pool_takes_total{result="miss"} 4`,
		`biocage_tool_call_seconds_count{outcome="exception",tool="python_run"} 1`, `biocage_tool_call_seconds_count{outcome="busy",tool="python_run"} 1`,
		`biocage_refused_calls_total{reason="busy"} 1`, `biocage_refused_calls_total{reason="argument"} 1`,
		`biocage_http_requests_total{status="200"} 1`, `biocage_http_requests_total{status="418"} 1`, "go_goroutines", "process_open_fds",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, canary) {
		t.Errorf("a label has what a client said:\n%s", text)
	}
	problems, err := promlint.New(io.NopCloser(strings.NewReader(text))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if t.Failed() {
		t.Log(text)
	}
}
