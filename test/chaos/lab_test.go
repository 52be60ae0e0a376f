//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/mcptest"
	"github.com/biocypher/biocage-mcp/internal/remains"
)

// flags of the package's tests.
type flags struct {
	engines *string
	kills   *int
	storm   *int
	soak    *time.Duration
}

var given = flags{
	engines: flag.String("engines", "docker,gvisor", "engines of the sandboxes, by comma"),
	kills:   flag.Int("kills", 8, "how often a server is killed at a random moment, on each engine"),
	storm:   flag.Int("storm", 200, "how often one session's interpreter ends"),
	soak:    flag.Duration("soak", 0, "how long the soak takes; 0: there is none"),
}

// Bounds. They are generous, because the machine may be busy.
const (
	answerWithin = time.Minute      // the longest that any answer may take
	worksWithin  = 90 * time.Second // until a session works again after a harm
	goneWithin   = 30 * time.Second // until nothing of a dead server is left
)

// A lab is one binary on one engine.
type lab struct {
	binary, engine string
	env            []string // for the server and the docker command
	environment    string   // "": the default one
}

// need skips a test for want of something, or fails it where all must be there.
func need(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// newLab is for the engine, if it works here.
func newLab(t *testing.T, engine string) lab {
	t.Helper()
	if testing.Short() {
		t.Skip("chaos starts sandboxes; it does not run with -short")
	}
	binary := os.Getenv("BIOCAGE_TEST_BINARY")
	if binary == "" {
		need(t, "no program to harm: make build, and BIOCAGE_TEST_BINARY=bin/biocage")
	}
	if !filepath.IsAbs(binary) {
		binary = filepath.Join("..", "..", binary)
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(*given.engines, ","), engine) {
		t.Skipf("-engines leaves out %s", engine)
	}
	return lab{binary: binary, engine: engine, env: os.Environ()}
}

// onEachEngine runs the test on every engine that works here.
func onEachEngine(t *testing.T, test func(t *testing.T, l lab)) {
	t.Helper()
	for _, engine := range []string{"docker", "gvisor"} {
		t.Run(engine, func(t *testing.T) {
			l := newLab(t, engine)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			doctor := exec.CommandContext(ctx, l.binary, "doctor", "--engine", engine)
			if out, err := doctor.CombinedOutput(); err != nil {
				need(t, "the engine %s does not work here: %v\n%s", engine, err, out)
			}
			test(t, l)
		})
	}
}

// A client is a server over stdio and what it may leave.
type client struct {
	*mcptest.Server
	watch *remains.Watch
}

// options are what differs between servers.
type options struct {
	warm  int
	limit string // a command of the shell before the server starts
	env   []string
}

// config writes the configuration of a server.
func (l lab) config(t *testing.T, more map[string]any) string {
	t.Helper()
	content := map[string]any{
		"engine":  l.engine,
		"sandbox": map[string]any{"memory": "256m", "disk": "64m", "pids": 64, "cpus": 1},
		"run":     map[string]any{"answer_within": "30s"},
		"log":     map[string]string{"level": "info"},
	}
	if l.environment != "" {
		content["environment"] = l.environment
	}
	maps.Copy(content, more)
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

// temp is a directory for one server's temporary files, short, as sockets are
// made in it.
func temp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// start runs a server over stdio. When the test ends it must end well and
// leave nothing, if it still lives.
func (l lab) start(t *testing.T, o options) *client {
	t.Helper()
	dir := temp(t)
	env := append(slices.Clone(l.env), append(o.env, "TMPDIR="+dir)...)
	args := []string{"serve", "--config", l.config(t, map[string]any{"session": map[string]int{"warm": o.warm}})}
	start := mcptest.Options{Binary: l.binary, Args: args, Env: env}
	if o.limit != "" {
		start.Binary, start.Args = "/bin/sh", append([]string{"-c", o.limit + `; exec "$0" "$@"`, l.binary}, args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	server, err := mcptest.Start(ctx, start)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{Server: server, watch: remains.New(remains.Options{
		PID: server.PID(), Docker: l.engine == "docker", Env: l.env,
		Dirs: remains.RunDirs(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"), dir),
	})}
	t.Cleanup(func() { c.end(t) })
	return c
}

// end ends a living server in order.
func (c *client) end(t *testing.T) {
	t.Helper()
	if c.Alive() {
		c.look(t)
		if err := c.Close(); err != nil {
			t.Errorf("the server did not end well: %v", err)
		}
		c.nothingLeft(t)
	}
	if t.Failed() {
		log := c.Stderr()
		t.Logf("the server's log ends:\n%s", log[max(0, len(log)-6000):])
	}
}

// look remembers what the living server owns.
func (c *client) look(t *testing.T) {
	t.Helper()
	if err := c.watch.Look(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (c *client) nothingLeft(t *testing.T) {
	t.Helper()
	left, took, err := c.watch.Gone(context.WithoutCancel(t.Context()), goneWithin)
	if err != nil {
		t.Fatal(err)
	}
	for _, thing := range left {
		t.Errorf("left after %v: %s", goneWithin, thing)
	}
	t.Logf("all was gone after %.2f s", took.Seconds())
}
