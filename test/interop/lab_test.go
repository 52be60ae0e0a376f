package interop

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/remains"
)

// engines are the ones that a server can be asked for.
func engines() []string { return []string{"docker", "gvisor"} }

// missing skips the test, or fails it where everything must be there.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// root is the top of the source tree.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// binary is the program under test.
func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("these tests start sandboxes; they do not run with -short")
	}
	if path := os.Getenv("BIOCAGE_TEST_BINARY"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root(t), path)
		}
		return path
	}
	path := filepath.Join(root(t), "build", "interop", "biocage")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".")
	build.Dir = root(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=jsonv2")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the binary: %v\n%s", err, out)
	}
	return path
}

// tool is a file that setup.sh installs.
func tool(t *testing.T, path ...string) string {
	t.Helper()
	full := filepath.Join(append([]string{root(t), "build", "interop"}, path...)...)
	if _, err := os.Stat(full); err != nil {
		missing(t, "%s is not there; run test/interop/setup.sh", full)
	}
	return full
}

// onEachEngine runs the test on every engine that works here.
func onEachEngine(t *testing.T, test func(t *testing.T, lab lab)) {
	t.Helper()
	program := binary(t)
	for _, engine := range engines() {
		t.Run(engine, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			doctor := exec.CommandContext(ctx, program, "doctor", "--engine", engine)
			if out, err := doctor.CombinedOutput(); err != nil {
				missing(t, "the engine %s does not work here (biocage doctor: %v):\n%s", engine, err, out)
			}
			test(t, lab{binary: program, engine: engine})
		})
	}
}

// A lab is one binary on one engine.
type lab struct {
	binary string
	engine string
}

// answerWithin is short, so that runs that outlast it can be tested, and
// longer than any other run here takes.
const answerWithin = "6s"

// settings are what differs between tests.
type settings struct {
	shared string // a directory that every session sees at /data/shared and may write to
	warm   int    // sandboxes that are kept ready
	expose map[string]any
}

// config writes a configuration.
func (l lab) config(t *testing.T, s settings) string {
	t.Helper()
	content := map[string]any{
		"engine":  l.engine,
		"run":     map[string]string{"answer_within": answerWithin},
		"log":     map[string]string{"level": "info"},
		"session": map[string]int{"warm": s.warm, "max": 40}, // who goes away leaves its session for a while
	}
	if s.expose != nil {
		content["expose"] = s.expose
	}
	if s.shared != "" {
		content["expose"] = map[string]any{
			"mounts": []map[string]string{{"host": s.shared, "sandbox": "/data/shared", "mode": "rw"}},
		}
	}
	text, err := json.Marshal(content) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "biocage.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serverEnv is what clients that pass on nothing must be told to pass on.
func serverEnv() map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case name == "HOME", name == "PATH", name == "TMPDIR",
			strings.HasPrefix(name, "DOCKER_"), strings.HasPrefix(name, "XDG_"):
			env[name] = value
		}
	}
	return env
}

// watch is for what the server with this process number may leave behind.
func (l lab) watch(pid int, temp string) *remains.Watch {
	return remains.New(remains.Options{
		PID:    pid,
		Docker: l.engine == "docker",
		Dirs:   remains.RunDirs(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"), temp),
	})
}
