package cases

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	flag.String("engine", "", "engines by comma; every one that works here by default")
	flag.String("corpus", "testdata/cases.jsonl,testdata/kinds.jsonl,testdata/abilities.jsonl", "files of cases by comma")
	flag.String("environment", "default", "the Python environment of the sandboxes")
	flag.String("servers", "2", "how many cases run at one time")
	flag.Parse()
	os.Exit(m.Run())
}

func textFlag(name string) string { return flag.Lookup(name).Value.String() }

// missing skips the test, or fails it where everything must be there.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func sourceRoot(t *testing.T) string {
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
	if path := os.Getenv("BIOCAGE_TEST_BINARY"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(sourceRoot(t), path)
		}
		return path
	}
	path := filepath.Join(t.TempDir(), "biocage")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".")
	build.Dir = sourceRoot(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=jsonv2")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the binary: %v\n%s", err, out)
	}
	return path
}

// A bed is one binary on one engine, with what this machine offers to it.
type bed struct {
	binary string
	engine string
	root   string
	lacks  string // why the engine does not work here; empty when it does

	environments []installed // the first that has what a case needs is taken
	daemon       *ownDaemon  // started when a case needs it; nil when the engine has none
}

// An installed is a Python environment and what it has.
type installed struct {
	name     string
	packages func() (map[string]bool, error)
}

// extras is the environment that is built for cases which need more than the
// default one has. It stays: the next run finds it up to date.
const extras = "test-cases"

func newBed(t *testing.T, binary, engine string, buildExtras func() error) *bed {
	t.Helper()
	b := &bed{binary: binary, engine: engine, root: sourceRoot(t)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	doctor := exec.CommandContext(ctx, binary, "doctor", "--engine", engine)
	if out, err := doctor.CombinedOutput(); err != nil {
		b.lacks = fmt.Sprintf("the engine %s does not work here (biocage doctor: %v):\n%s", engine, err, out)
		return b
	}
	b.environments = []installed{
		{textFlag("environment"), sync.OnceValues(func() (map[string]bool, error) { return b.listPackages(textFlag("environment")) })},
		{extras, sync.OnceValues(func() (map[string]bool, error) {
			if err := buildExtras(); err != nil {
				return nil, err
			}
			return b.listPackages(extras)
		})},
	}
	if engine == "docker" {
		b.daemon = &ownDaemon{script: filepath.Join(b.root, "scripts", "dockerd.sh")}
		t.Cleanup(func() {
			if err := b.daemon.stop(); err != nil {
				t.Error(err)
			}
		})
	}
	return b
}

// extrasBuilder builds the extras, once for all beds.
func extrasBuilder(binary string) func() error {
	return sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		build := exec.CommandContext(ctx, binary, "env", "build", "--engine", "gvisor", "--name", extras, "--from", filepath.Join("testdata", "extras.toml"))
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build the environment %s: %w\n%s", extras, err, out)
		}
		return nil
	})
}

// listPackages asks a sandbox what is installed.
func (b *bed) listPackages(environment string) (map[string]bool, error) {
	run := exec.Command(b.binary, "run", "--engine", b.engine, "-")
	run.Env = append(os.Environ(), "BIOCAGE_ENVIRONMENT="+environment)
	run.Stdin = strings.NewReader("import importlib.metadata as m\nfor d in m.distributions(): print(d.name.lower())")
	var stderr tail
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list the environment's packages: %w\n%s", err, &stderr)
	}
	found := map[string]bool{}
	for name := range strings.FieldsSeq(string(out)) {
		found[name] = true
	}
	return found, nil
}

// doesNotApply tells why the case means nothing on this engine; empty when it
// does.
func (b *bed) doesNotApply(sc *scenario) string {
	if slices.Contains(sc.Needs, "own-daemon") && b.daemon == nil {
		return "the engine " + b.engine + " has no daemon"
	}
	return "" // container and no-network hold for every sandbox here
}

// needsRoot tells whether the case can be played by root only, and this is not.
func needsRoot(sc *scenario) bool {
	return os.Geteuid() != 0 && (slices.Contains(sc.Needs, "own-daemon") || slices.Contains(sc.Needs, "host-root"))
}

// environmentFor is the first environment that has what the case needs.
func (b *bed) environmentFor(sc *scenario) (string, error) {
	if len(sc.Pkgs) == 0 {
		return b.environments[0].name, nil
	}
	for _, e := range b.environments {
		has, err := e.packages()
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(sc.Pkgs, func(name string) bool { return !has[strings.ToLower(name)] }) {
			return e.name, nil
		}
	}
	return "", fmt.Errorf("no environment has all of %s", strings.Join(sc.Pkgs, ", "))
}

// writeConfig writes the server's configuration for one case. A second sandbox,
// kept ready, is only made where the life of sandboxes is the theme: elsewhere
// it would double the work of the whole corpus.
func (b *bed) writeConfig(path, host, theme, environment string, s settings) error {
	roots := s.ExposeRoots
	if roots == nil {
		roots = []string{host}
	}
	var exposed []map[string]string
	for _, root := range roots {
		exposed = append(exposed, map[string]string{"path": root, "mode": "rw"})
	}
	content := map[string]any{
		"engine": b.engine, "environment": environment,
		"expose": map[string]any{"roots": exposed},
	}
	if s.DefaultTimeout > 0 {
		content["run"] = map[string]any{"timeout": seconds(s.DefaultTimeout).String()}
	}
	session := map[string]any{}
	if theme != "lifecycle" {
		session["warm"] = 0
	}
	if s.IdleTimeout > 0 {
		session["idle_timeout"] = seconds(s.IdleTimeout).String()
	}
	content["session"] = session
	text, err := json.Marshal(content) // JSON is YAML
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// An ownDaemon is a Docker daemon that cases may stop and start.
type ownDaemon struct {
	script string
	dir    string
}

func (d *ownDaemon) env() []string {
	return append(os.Environ(),
		"BIOCAGE_DOCKERD=private", "BIOCAGE_DOCKERD_DIR="+d.dir,
		"DOCKER_HOST=unix://"+filepath.Join(d.dir, "docker.sock"))
}

func (d *ownDaemon) do(what string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.script, what)
	cmd.Env = d.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("dockerd.sh %s: %w\n%s", what, err, out)
	}
	return nil
}

func (d *ownDaemon) start() error {
	if d.dir == "" {
		dir, err := os.MkdirTemp("/var/tmp", "biocage-cases-")
		if err != nil {
			return err
		}
		d.dir = dir
	}
	return d.do("start")
}

// stop ends the daemon and removes what it kept.
func (d *ownDaemon) stop() error {
	if d.dir == "" {
		return nil
	}
	if err := d.do("stop"); err != nil {
		return err
	}
	return os.RemoveAll(d.dir)
}
