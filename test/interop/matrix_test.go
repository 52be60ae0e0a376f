package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A target is where a client finds the server: a command to start, or a place
// where it listens.
type target struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Token   string            `json:"token,omitempty"`

	transport string // stdio, http or sse
}

// matrixScenarios are what every client does over every transport.
func matrixScenarios() []scenario {
	return []scenario{
		{"tools", judgeTools},
		{"state", judgeState},
		{"progress", judgeProgress},
		{"cancel", judgeCancel},
		{"large", judgeLarge},
		{"parallel", judgeParallel},
	}
}

// Every client over every transport: list, call, calls in parallel, progress,
// cancel, large results, and a return to the session by its handle. The engine
// makes no difference to a client; what works here is taken.
func TestClients(t *testing.T) {
	lab := anyLab(t)
	web := lab.listen(t)
	clients := map[string]func(*testing.T, target) map[string]json.RawMessage{
		"python 1": lab.pythonPlayer("1"), "python 2": lab.pythonPlayer("2"), "fastmcp": lab.pythonPlayer("fast"),
		"typescript 1": nodePlayer("ts1"), "typescript 2": nodePlayer("ts2"),
		"go": playGo,
	}
	for name, play := range clients {
		t.Run(name, func(t *testing.T) { // one client after the other: the machine is small
			for _, transport := range []string{"stdio", "http", "sse"} {
				t.Run(transport, func(t *testing.T) {
					t.Parallel() // most is waiting
					facts := play(t, web.target(t, lab, transport))
					every := parse[map[string]json.RawMessage](t, facts["every"])
					for _, s := range matrixScenarios() {
						t.Run(s.name, func(t *testing.T) { s.judge(t, every[s.name]) })
					}
					t.Logf("the revision is %q", parse[toolFacts](t, every["tools"]).Protocol)
					t.Run("kept", func(t *testing.T) { judgeKept(t, transport, facts["kept"]) })
				})
			}
		})
	}
}

// judgeKept: who comes back with the handle finds its state; over pipes the
// server ended with its client, and says so.
func judgeKept(t *testing.T, transport string, raw json.RawMessage) {
	t.Helper()
	facts := parse[struct {
		After answer `json:"after"`
	}](t, raw)
	if transport != "stdio" {
		facts.After.value(t, "42")
		return
	}
	if !facts.After.IsError || !strings.Contains(strings.Join(facts.After.Texts, " "), "session") {
		t.Errorf("a handle of another server is not refused: %.500s", facts.After.Texts)
	}
}

// anyLab is the first engine that works here.
func anyLab(t *testing.T) lab {
	t.Helper()
	program := binary(t)
	for _, engine := range []string{"gvisor", "docker"} {
		if exec.CommandContext(t.Context(), program, "doctor", "--engine", engine).Run() == nil {
			return lab{binary: program, engine: engine}
		}
	}
	missing(t, "no engine works here; run: biocage doctor")
	return lab{}
}

func (l lab) pythonPlayer(sdk string) func(*testing.T, target) map[string]json.RawMessage {
	return func(t *testing.T, to target) map[string]json.RawMessage {
		t.Helper()
		venv := "mcp1"
		if sdk != "1" {
			venv = "mcp2"
		}
		args := []string{filepath.Join("python", "run.py"), sdk, "every,kept"}
		if to.URL != "" {
			args = append(args, "TOKEN="+to.Token, "--", to.URL)
		} else {
			for name, value := range to.Env {
				args = append(args, name+"="+value)
			}
			args = append(append(args, "--", to.Command), to.Args...)
		}
		return playWith(t, nil, tool(t, venv, "bin", "python"), args...)
	}
}

func nodePlayer(sdk string) func(*testing.T, target) map[string]json.RawMessage {
	return func(t *testing.T, to target) map[string]json.RawMessage {
		t.Helper()
		order, err := json.Marshal(map[string]any{"sdk": sdk, "scenarios": []string{"every", "kept"}, "target": to})
		if err != nil {
			t.Fatal(err)
		}
		packages := filepath.Dir(tool(t, "node", "node_modules"))
		return playWith(t, order, tool(t, "node", "node_modules", ".bin", "node"), filepath.Join("node", "run.mjs"), packages)
	}
}

// playWith runs a client and reads its facts.
func playWith(t *testing.T, stdin []byte, program string, args ...string) map[string]json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("standard error of the client ends:\n%s", tail(stderr.String(), 60))
		}
	})
	if err != nil {
		t.Fatalf("the client failed: %v\n%s", err, tail(stderr.String(), 60))
	}
	return parse[map[string]json.RawMessage](t, stdout.Bytes())
}

// target is the server as a client finds it over a transport.
func (w *web) target(t *testing.T, l lab, transport string) target {
	t.Helper()
	if !slices.Contains([]string{"http", "sse"}, transport) {
		return target{Command: l.binary, Args: []string{"serve", "--config", l.config(t, settings{})}, Env: serverEnv(), transport: transport}
	}
	path := map[string]string{"http": "/mcp", "sse": "/sse"}[transport]
	return target{URL: w.url + path, Token: w.token, transport: transport}
}
