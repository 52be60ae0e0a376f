package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A real server's audit log has one line for each call, and nothing of what
// the client said.
func TestServeWritesTheAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := startServer(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor", "BIOCAGE_LOG_AUDIT="+path, "BIOCAGE_LOG_LEVEL=debug")
	const canary = "CANARY8261"
	handle := s.run("'" + canary + "'")["session"]
	s.run("raise ValueError('" + canary + "')")
	s.run("import os; os._exit(3)  # " + canary)
	s.request(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"file_read","arguments":{"path":"` + canary + `"}}}`)
	s.request(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	s.request(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + canary + `"}}`)
	s.request(`{"jsonrpc":"2.0","id":2,"method":"resources/list"}`)
	s.request(`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"debug_error"}}`)
	if err := s.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for text := range bytes.Lines(data) {
		var line struct {
			Outcome, Request, Session, Tool string
			Milli                           int64 `json:"ms"`
			PID                             int
		}
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		outcomes = append(outcomes, line.Tool+" "+line.Outcome)
		if line.Request == "" || line.PID != s.cmd.Process.Pid || line.Tool == "python_run" && line.Session == "" {
			t.Errorf("the line is %s", text)
		}
		if strings.Contains(s.stderr.String(), "tool="+line.Tool) && !strings.Contains(s.stderr.String(), "request=") {
			t.Errorf("the log has no request ids:\n%s", s.stderr)
		}
	}
	want := "python_run ok, python_run exception, python_run died, file_read argument, unknown argument, resources/list ok, prompts/get ok"
	if got := strings.Join(outcomes, ", "); got != want {
		t.Errorf("the log has %s, want %s\n%s", got, want, data)
	}
	if text, ok := handle.(string); !ok || bytes.Contains(data, []byte(text)) || bytes.Contains(data, []byte(canary)) {
		t.Errorf("the log tells the handle or what the client said:\n%s", data)
	}
}

// A server whose audit log cannot be written does not start.
func TestServeRefusesAnAuditLogThatCannotBeWritten(t *testing.T) {
	var stderr bytes.Buffer
	p := process{
		stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &stderr,
		environ: []string{"BIOCAGE_DATA_DIR=" + t.TempDir(), "BIOCAGE_LOG_AUDIT=/dev/null/audit"},
	}
	if code := run(t.Context(), p, []string{"serve"}); code != exitFailure || !strings.Contains(stderr.String(), "leave log.audit empty") {
		t.Errorf("code %d, standard error %q", code, stderr.String())
	}
}

// A collector gets the spans of a call and of what was done for it, and
// nothing of what the client said.
func TestServeSendsTraces(t *testing.T) {
	const canary = "CANARY6604"
	var mu sync.Mutex
	var got bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := io.Copy(&got, r.Body); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
	}))
	defer collector.Close()
	s := startServer(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_SERVICE_NAME=a-service")
	s.run("'" + canary + "'")
	if err := s.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	s.end(5 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"a-service", "tools/call python_run", "session.run", "sandbox.create", "agent.start", "agent.execute"} {
		if !bytes.Contains(got.Bytes(), []byte(want)) {
			t.Errorf("the collector got no %q\n%s", want, s.stderr)
		}
	}
	if bytes.Contains(got.Bytes(), []byte(canary)) {
		t.Errorf("the spans tell what the client said: %q", got.Bytes())
	}
}

// A collector that is not there, or does not answer, holds nothing up; what a
// host sets for itself does not stop the server.
func TestServeWithoutACollector(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	for name, environ := range map[string][]string{
		"none":             {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9"},
		"silent":           {"OTEL_EXPORTER_OTLP_ENDPOINT=" + silent.URL},
		"another protocol": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, append(environ, "BIOCAGE_DATA_DIR="+t.TempDir(), "BIOCAGE_ENGINE=gvisor")...)
			s.run("1")
			if err := s.stdin.Close(); err != nil {
				t.Fatal(err)
			}
			s.end(5 * time.Second)
			if !strings.Contains(s.stderr.String(), "traces") {
				t.Errorf("the log does not tell that traces were not sent:\n%s", s.stderr)
			}
		})
	}
}

// Over HTTP too the end waits for no collector, nor for streams that are open
// or a call that runs.
func TestServeHTTPEndsWithoutACollector(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	for name, endpoint := range map[string]string{"none": "http://127.0.0.1:9", "silent": silent.URL, "no route": "http://192.0.2.1:4318"} {
		t.Run(name, func(t *testing.T) {
			s, c := startHTTP(t, needEnvironment(t), "BIOCAGE_ENGINE=gvisor", "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_BSP_SCHEDULE_DELAY=50")
			c.begin()
			c.expectRun("import time", `"success":true`)
			_, events := c.get(t.Context(), "/sse", c.token)
			defer events.Close()
			done := make(chan string, 1)
			go func() {
				_, text, _ := c.post(t.Context(), runMessage("2", "open('started', 'w').close(); time.sleep(600)", "", ""))
				done <- text
			}()
			awaitFile(t, c, "started")
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			s.end(5 * time.Second)
			if text := <-done; !strings.Contains(text, "shutting down") {
				t.Errorf("the call that ran was told %q", text)
			}
			if !strings.Contains(s.stderr.String(), "traces") {
				t.Errorf("the log does not tell that traces were not sent:\n%s", s.stderr)
			}
		})
	}
}
