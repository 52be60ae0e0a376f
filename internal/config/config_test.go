package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExampleIsTheDefault(t *testing.T) {
	data, err := os.ReadFile("../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(Source{Name: "config.example.yaml", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Expose = Expose{Roots: []Root{}, Mounts: []Mount{}}
	want.Server.Tokens, want.Server.AllowedOrigins, want.Server.AllowedHosts = []string{}, []string{}, []string{}
	want.Server.OAuth.Scopes = []string{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the example differs from the defaults (-default +example):\n%s", diff)
	}
	for _, f := range fieldsOf(&want) {
		last := f.key[strings.LastIndexByte(f.key, '.')+1:]
		if !strings.Contains(string(data), last+":") {
			t.Errorf("the example does not mention %s", f.key)
		}
	}
}

func TestLoadPrecedence(t *testing.T) {
	file := "engine: gvisor\nsandbox: {memory: 512m, cpus: 1.5}\nrun:\n  timeout: 10\nlog: {level: warn}\n" +
		"expose:\n  roots:\n    - {path: /srv/data}\n    - {path: /srv/out, mode: rw}\n"
	env := map[string]string{
		"BIOCAGE_SANDBOX_MEMORY": "1g",
		"BIOCAGE_LOG_LEVEL":      "error",
		"BIOCAGE_SERVER_TOKENS":  "0123456789abcdef, fedcba9876543210",
		"BIOCAGE_EXPOSE_MOUNTS":  "/srv/models:/data/models,/srv/x:/data/x:rw",
		"BIOCAGE_ENGINE":         "",
	}
	got, err := Load(Source{
		Name: "c.yaml", Data: []byte(file),
		Env:   func(name string) string { return env[name] },
		Flags: map[string]string{"log.level": "debug"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Engine = "gvisor"
	want.Sandbox.Memory, want.Sandbox.CPUs = 1<<30, 1.5
	want.Run.Timeout = Duration(10 * time.Second)
	want.Log.Level = "debug"
	want.Server.Tokens = []string{"0123456789abcdef", "fedcba9876543210"}
	want.Expose = Expose{
		Roots: []Root{{Path: "/srv/data", Mode: "ro"}, {Path: "/srv/out", Mode: "rw"}},
		Mounts: []Mount{
			{Host: "/srv/models", Sandbox: "/data/models", Mode: "ro"},
			{Host: "/srv/x", Sandbox: "/data/x", Mode: "rw"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

func TestLoadTellsEveryFaultAtOnce(t *testing.T) {
	file := `engin: docker
engine: dokcer
sandbox:
  memory: lots
  pids: [1]
  cpus: true
run:
  timeout: 20m
  timeout: 5s
  stop_session_on_failure: 7
expose:
  roots:
    - {path: data, mode: rx}
    - /srv
log: debug
server:
  tokens: [short]
  listen: nowhere
session:
  idle_timeout: .nan
  warm: -.inf
`
	_, err := Load(Source{
		Name: "c.yaml", Data: []byte(file),
		Env: func(name string) string {
			return map[string]string{"BIOCAGE_SESSION_MAX": "0", "BIOCAGE_RUN_ANSWER_WITHIN": "soon"}[name]
		},
		Flags: map[string]string{"log.format": "xml"},
	})
	if _, ok := errors.AsType[FaultErrors](err); !ok {
		t.Fatalf("Load: %v, want FaultErrors", err)
	}
	want := []string{
		`c.yaml:1: engin: unknown key; did you mean engine?`,
		`c.yaml:2: engine: "dokcer" is not one of auto, docker, gvisor; did you mean docker?`,
		`c.yaml:4: sandbox.memory: "lots" is not a size; write 512m, 2g or 64KiB`,
		`c.yaml:5: sandbox.pids: must be a single value, not a list`,
		`c.yaml:6: sandbox.cpus: true is a truth value; a number is meant`,
		`c.yaml:9: run.timeout: is given twice; keep one`,
		`c.yaml:10: run.stop_session_on_failure: 7 is neither true nor false`,
		`c.yaml:13: expose.roots[0].mode: "rx" is not one of ro, rw`,
		`c.yaml:13: expose.roots[0].path: must be an absolute path`,
		`c.yaml:14: expose.roots[1]: must be a mapping (key: value), not a single value`,
		`c.yaml:15: log: must be a mapping (key: value), not a single value`,
		`c.yaml:17: server.tokens[0]: must have at least 16 characters and no spaces`,
		`c.yaml:18: server.listen: must be HOST:PORT, such as 127.0.0.1:8765`,
		`c.yaml:20: session.idle_timeout: .nan is not a duration such as 30s`,
		`c.yaml:21: session.warm: -.inf is not a number`,
		`BIOCAGE_SESSION_MAX: session.max: must be between 1 and 1024`,
		`BIOCAGE_RUN_ANSWER_WITHIN: run.answer_within: "soon" is not a duration; write 30s or 10m`,
		`--log-format: "xml" is not one of text, json`,
	}
	for _, line := range want {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("missing fault: %s", line)
		}
	}
	if t.Failed() {
		t.Logf("got:\n%v", err)
	}
}

func TestLoadSingleFaults(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"timeout above the ceiling", "run: {timeout: 20m}", "c.yaml:1: run.timeout: 20m0s exceeds run.max_timeout (10m0s)"},
		{"warm above max", "session:\n  max: 1\n  warm: 2", "c.yaml:3: session.warm: must not exceed session.max (1)"},
		{"negative", "run: {timeout: -1s}", "run.timeout: must be above 0"},
		{"not YAML", "run: [", "c.yaml:1: this is not YAML"},
		{"a list on top", "- a", "c.yaml:1: must be a mapping"},
		{"an alias", "run: &a {timeout: 1s}\nsession: *a", "not an alias or anchor"},
		{"home", "expose: {roots: [{path: ~/data}]}", "expose.roots[0].path: must be an absolute path; ~ is not expanded"},
		{"whole host", "expose: {roots: [{path: /}]}", "expose.roots[0].path: the whole host cannot be exposed"},
		{"tiny memory", "sandbox: {memory: 1m}", "sandbox.memory: must be at least 64m"},
		{"two documents", "engine: auto\n---\nengine: docker", "more than one YAML document"},
		{"host with scheme", "server: {allowed_hosts: ['http://x']}", "allowed_hosts[0]: must be a host name"},
		{"origin with path", "server: {allowed_origins: ['http://x/y']}", "allowed_origins[0]: must be an origin"},
		{"unlike anything", "zzz: 1", "unknown key; known here: engine, environment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(Source{Name: "c.yaml", Data: []byte(tt.file)})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load: %v\nwant: %s", err, tt.want)
			}
		})
	}
}

func TestEnvironmentForms(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0f", 32)
	for name, ok := range map[string]bool{
		"default": true, "my-env.2": true, "a_b": true, "python:3.13-slim": true, "docker.io/library/python": true,
		"localhost:5000/team/py:1.0" + digest: true, "python" + digest: true, "sha256:" + strings.Repeat("0f", 32): true,
		"../x": false, "/etc": false, "a b": false, "": false, "python@sha256:00": false, "Mine": false, "-x": false, "a:b:c": false,
	} {
		cfg := []byte(fmt.Sprintf("environment: %q", name))
		if _, err := Load(Source{Name: "c.yaml", Data: cfg}); (err == nil) != ok {
			t.Errorf("environment %q: %v", name, err)
		}
	}
}

func TestEmptyFilesAreTheDefault(t *testing.T) {
	for _, file := range []string{"", "\n", "# nothing\n", "---\n", "run:\n", "engine:\nrun:\n  timeout:\n", "expose:\n  roots:\n"} {
		got, err := Load(Source{Name: "c.yaml", Data: []byte(file)})
		if err != nil {
			t.Errorf("Load(%q): %v", file, err)
			continue
		}
		if diff := cmp.Diff(Default(), got); diff != "" {
			t.Errorf("Load(%q) (-default +got):\n%s", file, diff)
		}
	}
}

func TestUnits(t *testing.T) {
	sizes := []struct {
		text string
		want Size
		ok   bool
	}{
		{"512m", 512 << 20, true},
		{"2g", 2 << 30, true},
		{"64KiB", 64 << 10, true},
		{"64kb", 64 << 10, true},
		{"1.5G", 3 << 29, true},
		{"1024", 1024, true},
		{" 7 MB ", 7 << 20, true},
		{"1t", 1 << 40, true},
		{"-1", 0, false},
		{"", 0, false},
		{"m", 0, false},
		{"1x", 0, false},
		{"9999999t", 0, false},
		{"nan", 0, false},
	}
	for _, tt := range sizes {
		got, err := ParseSize(tt.text)
		if (err == nil) != tt.ok || (tt.ok && got != tt.want) {
			t.Errorf("ParseSize(%q) = %d, %v; want %d, ok %v", tt.text, got, err, tt.want, tt.ok)
		}
		if tt.ok {
			if again, err := ParseSize(got.String()); err != nil || again != got {
				t.Errorf("ParseSize(%q) = %d, %v; want %d", got.String(), again, err, got)
			}
		}
	}
	durations := []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"30s", 30 * time.Second, true},
		{"10m", 10 * time.Minute, true},
		{"2.5", 2500 * time.Millisecond, true},
		{"45", 45 * time.Second, true},
		{"1e300", 0, false},
		{"nan", 0, false},
		{"soon", 0, false},
		{"", 0, false},
	}
	for _, tt := range durations {
		got, err := ParseDuration(tt.text)
		if (err == nil) != tt.ok || (tt.ok && got.Std() != tt.want) {
			t.Errorf("ParseDuration(%q) = %s, %v; want %s, ok %v", tt.text, got, err, tt.want, tt.ok)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("run: {timeout: 1s}")
	f.Add("expose:\n  roots:\n    - {path: /a, mode: rw}\n")
	f.Add("a: &x [*x]")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := Load(Source{Name: "f", Data: []byte(text)})
		var faults FaultErrors
		if err != nil && (!errors.As(err, &faults) || len(faults) == 0) {
			t.Errorf("Load: %v, want FaultErrors", err)
		}
		if err == nil && (cfg.Run.Timeout <= 0 || cfg.Run.Timeout > cfg.Run.MaxTimeout) {
			t.Errorf("accepted an impossible timeout: %s", cfg.Run.Timeout)
		}
	})
}

func TestASharePerPrincipal(t *testing.T) {
	for name, tt := range map[string]struct {
		max    int
		server Server
		want   int
	}{
		"a pipe":                {0, Server{Transport: "stdio", Tokens: []string{"a", "b"}}, 16},
		"no token":              {0, Server{Transport: "http"}, 16},
		"one token":             {0, Server{Transport: "http", Tokens: []string{"a"}}, 16},
		"a token in a file":     {0, Server{Transport: "http", TokenFile: "/t"}, 16},
		"two tokens":            {0, Server{Transport: "http", Tokens: []string{"a", "b"}}, 12},
		"one here, one there":   {0, Server{Transport: "http", Tokens: []string{"a"}, TokenFile: "/t"}, 12},
		"whom an issuer knows":  {0, Server{Transport: "http", OAuth: OAuth{Issuer: "https://x"}}, 12},
		"as configured":         {3, Server{Transport: "http", Tokens: []string{"a"}}, 3},
		"never more than there": {99, Server{Transport: "http", Tokens: []string{"a"}}, 16},
	} {
		c := Default()
		c.Session.MaxPerPrincipal, c.Server = tt.max, tt.server
		if got := c.PerPrincipal(); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
