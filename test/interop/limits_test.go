package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A session's own limits bound real code, on each engine; the configuration's
// return with empty ones.
func TestLimitsOfASession(t *testing.T) {
	onEachEngine(t, func(t *testing.T, lab lab) {
		s := lab.start(t)
		s.python(t, "kept = 1")
		limits := map[string]any{"memory": "1g", "cpus": 0.5, "pids": 16, "disk": "8m", "timeout_seconds": 20, "max_output": "2KiB"}
		s.reset(t, limits)
		info := s.limits(t)
		for name, want := range map[string]float64{
			"memory_bytes": 1 << 30, "cpus": 0.5, "pids": 16, "disk_bytes": 8 << 20,
			"timeout_seconds": 20, "max_timeout_seconds": 20, "max_output_bytes": 2 << 10,
		} {
			if info[name] != want {
				t.Errorf("session_info: %s is %v, want %v", name, info[name], want)
			}
		}
		for _, tt := range []struct{ name, code, want string }{
			{"the state is gone", "print('kept' in globals())", "False"},
			{"memory", "try:\n    x = bytearray(1100 << 20)\nexcept MemoryError:\n    print('refused')", "refused"},
			{"disk", "try:\n    open('big', 'wb').write(bytes(16 << 20))\nexcept OSError as e:\n    print('refused', e.errno)", "refused"},
			{"processes", manyProcesses, "refused"},
		} {
			if got := s.finished(t, tt.code); !strings.Contains(got.Stdout, tt.want) {
				t.Errorf("%s: %+v", tt.name, got)
			}
		}
		if got := s.finished(t, "import time; time.sleep(60)"); got.ExitCode != 124 {
			t.Errorf("time: %+v", got)
		}
		if got := s.finished(t, "print('x' * 100_000)"); len(got.Stdout) > 4<<10 {
			t.Errorf("output: %d bytes came", len(got.Stdout))
		}
		s.reset(t, map[string]any{})
		got, back := s.finished(t, "import os\nlen(os.listdir('.'))"), s.limits(t)
		if !got.Success || back["memory_bytes"] != float64(2<<30) || back["pids"] != 256.0 || back["timeout_seconds"] != 30.0 {
			t.Errorf("after the return to the configuration: %+v, %v", got, back)
		}
	})
}

const manyProcesses = `
import os, signal
children = []
try:
    for _ in range(100):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except OSError:
    print('refused after', len(children))
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
`

// finished runs code to its end, however slow the machine is.
func (s *server) finished(t *testing.T, code string) run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	res := s.python(t, code)
	for res.Status == "running" {
		raw, err := s.call(ctx, "python_wait", map[string]any{"run_id": res.RunID})
		if err != nil {
			t.Fatalf("python_wait: %v", err)
		}
		res = parse[run](t, raw)
	}
	return res
}

// reset calls session_reset with limits.
func (s *server) reset(t *testing.T, limits map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	raw, err := s.call(ctx, "session_reset", map[string]any{"limits": limits})
	if err != nil {
		t.Fatalf("session_reset: %v", err)
	}
	if res := parse[struct {
		SandboxID string `json:"sandbox_id"`
	}](t, raw); res.SandboxID == "" {
		t.Fatalf("session_reset: %s", raw)
	}
}

func (s *server) limits(t *testing.T) map[string]any {
	t.Helper()
	raw, err := s.call(t.Context(), "session_info", map[string]any{})
	if err != nil {
		t.Fatalf("session_info: %v", err)
	}
	return parse[struct {
		Limits map[string]any `json:"limits"`
	}](t, raw).Limits
}

// Each limit can be given to a single run too.
func TestLimitsOfARun(t *testing.T) {
	onEachEngine(t, func(t *testing.T, lab lab) {
		tests := []struct {
			name, code string
			flags      []string
			exit       int
			has        string
		}{
			{"memory", "x = bytearray(600 << 20)", []string{"--memory", "320m"}, 1, "MemoryError"},
			{"processes", manyProcesses, []string{"--pids", "40"}, 0, "refused"},
			{"disk", "open('big', 'wb').write(bytes(16 << 20))", []string{"--disk", "8m"}, 1, "OSError"},
			{"output", "print('x' * 100_000)", []string{"--max-output", "2KiB"}, 0, "bytes left out"},
			{"time", "print('begun', flush=True)\nimport time; time.sleep(60)", []string{"--timeout", "2s"}, 124, "begun"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				args := append([]string{"run", "--json", "--engine", lab.engine, "--config", lab.config(t, settings{})}, tt.flags...)
				cmd := exec.CommandContext(ctx, lab.binary, append(args, "-")...)
				cmd.Stdin = strings.NewReader(tt.code)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, _ := cmd.Output() // the exit code says it
				if code := cmd.ProcessState.ExitCode(); code != tt.exit || !bytes.Contains(out, []byte(tt.has)) || !json.Valid(out) {
					t.Errorf("exit %d, want %d, with %q in the result:\n%.2000s\n%s", code, tt.exit, tt.has, out, &stderr)
				}
			})
		}
	})
}
