//go:build linux

package attacks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/mcptest"
)

var (
	engineFlag = flag.String("engine", "", "engine of the sandboxes: gvisor or docker; both, one after the other, when empty")
	corpusFlag = flag.String("corpus", "testdata/attacks.jsonl,testdata/more.jsonl", "files with attacks, by comma")
	reportFlag = flag.String("report", "", "file for what was seen, a line of JSON for each attack")
)

// Bounds of the sandboxes under attack, small enough to be reached quickly.
const (
	memoryLimit = "512m"
	pidsLimit   = 128
	diskLimit   = "256m"
	maxSessions = 4
)

// A lab is the host as the attacks find it: the program, what is secret, what
// is exposed, and a listener that nobody may reach.
type lab struct {
	binary, engine string
	config         string
	fill           map[string]string // the corpus's placeholders
	canary         string            // content of the canary file
	env            []string
	listener       net.Listener
	visitors       atomic.Int64
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// program is the binary under test.
func program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BIOCAGE_TEST_BINARY"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root(t), path)
		}
		return path
	}
	path := filepath.Join(t.TempDir(), "biocage")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".")
	build.Dir = root(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=jsonv2")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the binary: %v\n%s", err, out)
	}
	return path
}

// newLab prepares the host. It skips the test where the engine does not work,
// and fails it where CI says that everything must.
func newLab(t *testing.T, engine string) *lab {
	t.Helper()
	if testing.Short() {
		t.Skip("attacks need sandboxes; they do not run with -short")
	}
	l := &lab{binary: program(t), engine: engine, canary: "canary-" + rand.Text()}
	l.workingEngine(t)
	l.listen(t)
	l.furnish(t)
	return l
}

// workingEngine sees that a sandbox really runs on the engine asked for.
func (l *lab) workingEngine(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, l.binary, "run", "--engine", l.engine, "/dev/null").CombinedOutput()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the engine %s does not work here: %v\n%s", l.engine, err, out)
		}
		t.Skipf("the engine %s does not work here: %v\n%s", l.engine, err, out)
	}
}

// listen opens a port on all addresses, which no sandbox may reach.
func (l *lab) listen(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	l.listener = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				l.visitors.Add(1)
				conn.Close()
			}
		}
	}()
}

// furnish makes the files, the secret and the configuration.
func (l *lab) furnish(t *testing.T) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ro, rw := filepath.Join(dir, "ro"), filepath.Join(dir, "rw")
	for _, d := range []string{ro, rw} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	canary := filepath.Join(dir, "canary.txt")
	if err := os.WriteFile(canary, []byte(l.canary), 0o644); err != nil {
		t.Fatal(err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	secret := "secret-" + rand.Text()
	l.fill = map[string]string{
		"HOST_CANARY_PATH": canary,
		"HOST_CANARY":      l.canary,
		"HOST_PORT":        strconv.Itoa(l.listener.Addr().(*net.TCPAddr).Port),
		"HOST_GW":          hostAddress(t),
		"SECRET":           secret,
		"HOSTNAME":         hostname,
		"ALLOWED_ROOT":     ro,
		"EXPOSED_RO_HOST":  filepath.Join(ro, "exposed.txt"),
		"EXPOSED_RO":       "/data/exposed.txt",
		"EXPOSED_RW_HOST":  filepath.Join(rw, "shared"),
		"EXPOSED_RW":       "/data/shared",
		"HOST_MARK":        filepath.Join(dir, "mark"),
	}
	l.env = append(os.Environ(), "SERVICE_TOKEN="+secret, "AWS_SECRET_ACCESS_KEY="+secret, "DB_PASSWORD="+secret)
	content, err := json.Marshal(map[string]any{ // JSON is YAML
		"engine":  l.engine,
		"sandbox": map[string]any{"memory": memoryLimit, "cpus": 1, "pids": pidsLimit, "disk": diskLimit},
		"session": map[string]any{"max": maxSessions, "warm": 1},
		"expose":  map[string]any{"roots": []map[string]string{{"path": ro, "mode": "ro"}, {"path": rw, "mode": "rw"}}},
		"log":     map[string]any{"level": "debug", "format": "text"},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.config = filepath.Join(dir, "biocage.yaml")
	if err := os.WriteFile(l.config, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// hostAddress is an address of this host that is not its loopback.
func hostAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// A client is a server process and its own session.
type client struct {
	*mcptest.Server
	engine, sandbox string
	fds             int // open files when it was fresh
}

// start starts a server and lets it run something, so that what it opens for
// good is open.
func (l *lab) start(ctx context.Context) (*client, error) {
	server, err := mcptest.Start(ctx, mcptest.Options{
		Binary: l.binary, Args: []string{"--config", l.config, "serve"}, Env: l.env,
	})
	if err != nil {
		return nil, err
	}
	c := &client{Server: server}
	if err := c.settle(ctx); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return c, nil
}

func (c *client) settle(ctx context.Context) error {
	a, err := c.Tool(ctx, "python_run", map[string]any{"code": "print(6*7)"})
	if err != nil {
		return err
	}
	if strings.TrimSpace(a.Object.Stdout) != "42" {
		return fmt.Errorf("a fresh session does not work: %s\n%s", a.Text(), c.Stderr())
	}
	if err := c.learn(ctx); err != nil {
		return err
	}
	if err := until(ctx, 20*time.Second, func() (bool, error) { n, err := c.sandboxes(ctx); return n == 2, err }); err != nil {
		return fmt.Errorf("a session and a warm sandbox are expected: %w", err)
	}
	c.fds, err = openFiles(c.PID())
	return err
}

// learn asks which engine and sandbox the session has.
func (c *client) learn(ctx context.Context) error {
	a, err := c.Tool(ctx, "session_info", nil)
	if err != nil {
		return err
	}
	var info struct {
		Engine    string `json:"engine"`
		SandboxID string `json:"sandbox_id"`
	}
	if err := json.Unmarshal(a.Meta, &info); err != nil {
		return fmt.Errorf("session_info: %w: %s", err, a.Text())
	}
	c.engine, c.sandbox = info.Engine, info.SandboxID
	return nil
}

// until waits for a condition.
func until(ctx context.Context, patience time.Duration, holds func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		ok, err := holds()
		if err != nil || ok {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it did not come about in %s", patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
