package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/environment"
	"github.com/biocypher/biocage-mcp/internal/config"
)

func TestExposeFlag(t *testing.T) {
	here, err := filepath.Abs("data")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		value string
		want  config.Mount
		ok    bool
	}{
		{"/srv/x", config.Mount{Host: "/srv/x", Sandbox: "/data/x", Mode: "ro"}, true},
		{"/srv/x:rw", config.Mount{Host: "/srv/x", Sandbox: "/data/x", Mode: "rw"}, true},
		{"/srv/x:/app/y", config.Mount{Host: "/srv/x", Sandbox: "/app/y", Mode: "ro"}, true},
		{"/srv/x:/app/y:ro", config.Mount{Host: "/srv/x", Sandbox: "/app/y", Mode: "ro"}, true},
		{"data/", config.Mount{Host: here, Sandbox: "/data/data", Mode: "ro"}, true},
		{":rw", config.Mount{}, false},
		{"", config.Mount{}, false},
	}
	for _, tt := range tests {
		got, err := exposeFlag(tt.value)
		if (err == nil) != tt.ok {
			t.Errorf("exposeFlag(%q): %v", tt.value, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("exposeFlag(%q) (-want +got):\n%s", tt.value, diff)
		}
	}
}

// A folder's name grants nothing but reading that folder.
func TestServedFolders(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		want  []config.Root
		fault string
	}{
		{nil, []config.Root{{Path: "/of/file", Mode: "rw"}}, ""},
		{[]string{""}, []config.Root{{Path: "/of/file", Mode: "rw"}}, ""},
		{[]string{"/a", "--log-level", "warn", "/b c:rw"}, []config.Root{{Path: "/a", Mode: "ro"}, {Path: "/b c:rw", Mode: "ro"}}, ""},
		{[]string{"/a,/etc:rw"}, nil, "has a comma in its name"},
		{[]string{"serv"}, nil, "by their absolute paths"},
	} {
		f := newFlags("serve", "", "")
		p := process{environ: []string{"BIOCAGE_EXPOSE_ROOTS=/of/file:rw"}}
		folders, _, err := f.parseMixed(p, tt.args)
		if err != nil {
			t.Fatal(err)
		}
		err = f.roots(folders)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%q: %v, want %q", tt.args, err, tt.fault)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := f.load(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, cfg.Expose.Roots); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.args, diff)
		}
	}
}

func TestOnceFlags(t *testing.T) {
	tests := []struct {
		args   []string
		files  []string
		values map[string]string
	}{
		{[]string{"x.py", "--network", "--json"}, []string{"x.py"}, map[string]string{"sandbox.network": "full"}},
		{[]string{"--network", "none", "x.py"}, []string{"x.py"}, map[string]string{"sandbox.network": "none"}},
		{[]string{"--network", "full", "-"}, []string{"-"}, map[string]string{"sandbox.network": "full"}},
		{
			[]string{"--pids", "64", "--disk=64m", "x.py", "--max-output", "8KiB"},
			[]string{"x.py"},
			map[string]string{"sandbox.pids": "64", "sandbox.disk": "64m", "run.max_output": "8KiB"},
		},
		{
			[]string{"--network=full", "--memory", "1g", "--cpus", "1.5", "a", "--timeout", "9s", "b"},
			[]string{"a", "b"},
			map[string]string{"sandbox.network": "full", "sandbox.memory": "1g", "sandbox.cpus": "1.5", "run.timeout": "9s"},
		},
	}
	for _, tt := range tests {
		f := newOnceFlags()
		files, done, err := f.parseMixed(process{}, joinNetwork(tt.args))
		if done || err != nil {
			t.Errorf("%q: %v", tt.args, err)
		}
		if diff := cmp.Diff(tt.files, files); diff != "" {
			t.Errorf("%q: files %s", tt.args, diff)
		}
		if diff := cmp.Diff(tt.values, f.values); diff != "" {
			t.Errorf("%q: values %s", tt.args, diff)
		}
	}
}

// Whoever types a time limit is allowed it.
func TestTypedTimeoutRaisesTheCeiling(t *testing.T) {
	f := newOnceFlags()
	if _, _, err := f.parseMixed(process{}, []string{"--timeout", "2h"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.settle(process{environ: []string{"BIOCAGE_RUN_MAX_TIMEOUT=1m"}})
	if err != nil || cfg.Run.Timeout.Std() != 2*time.Hour || cfg.Log.Level != "warn" {
		t.Errorf("%v: timeout %s, level %s", err, cfg.Run.Timeout, cfg.Log.Level)
	}
}

func TestPackagesLine(t *testing.T) {
	packages := []environment.Package{{Name: "certifi"}, {Name: "pandas"}, {Name: "Pillow"}, {Name: "numpy"}, {Name: "zzz"}}
	if got, want := packagesLine(packages), "numpy, pandas, pillow, certifi, zzz"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 100 {
		packages = append(packages, environment.Package{Name: fmt.Sprintf("package-%d", i)})
	}
	line := packagesLine(packages)
	if len(line) > maxPackagesLine+20 || !bytes.HasPrefix([]byte(line), []byte("numpy, pandas, pillow, ")) || !bytes.HasSuffix([]byte(line), []byte(" more")) {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	if got := packagesLine(nil); got != "" {
		t.Errorf("no packages: %q", got)
	}
}

func TestProgress(t *testing.T) {
	steps := []environment.Progress{
		{Phase: "base", Message: "download", Done: 1, Total: 4},
		{Phase: "base", Message: "download", Done: 2, Total: 4},
		{Phase: "packages", Message: "numpy"},
	}
	var lines bytes.Buffer
	plain := newProgress(&lines)
	for _, step := range steps {
		plain.show(step)
	}
	plain.end()
	if got, want := lines.String(), "base: download\npackages: numpy\n"; got != want {
		t.Errorf("plain: %q, want %q", got, want)
	}
	var screen bytes.Buffer
	terminal := &progress{w: &screen, terminal: true}
	for _, step := range steps {
		terminal.show(step)
	}
	terminal.end()
	want := "\r\x1b[Kbase: download 25%\r\x1b[Kbase: download 50%\r\x1b[Kpackages: numpy\r\x1b[K"
	if got := screen.String(); got != want {
		t.Errorf("terminal: %q, want %q", got, want)
	}
}

// A configuration named by mistake must not fill the memory.
func TestConfigurationIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(name, bytes.Repeat([]byte("#"), maxConfig+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{name, "/dev/zero"} {
		f := flagSet{config: name}
		var usage usageError
		if _, err := f.load(process{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), "is larger than 1048576 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGetenv(t *testing.T) {
	p := process{environ: []string{"A=1", "AB=2", "A=3=4", "C="}}
	for name, want := range map[string]string{"A": "3=4", "AB": "2", "C": "", "D": ""} {
		if got := p.getenv(name); got != want {
			t.Errorf("getenv(%s) = %q, want %q", name, got, want)
		}
	}
}

// A fault of the command line is told apart from a failure by its exit code.
func TestExitCodes(t *testing.T) {
	here := []string{"HOME=" + t.TempDir(), "XDG_DATA_HOME=" + t.TempDir(), "BIOCAGE_DATA_DIR=" + t.TempDir(), "BIOCAGE_ENGINE=gvisor"}
	tests := []struct {
		args []string
		want int
		says string
	}{
		{[]string{"env", "remove", "../x"}, exitUsage, `environment "../x": not a name`},
		{[]string{"env", "remove", "a/b"}, exitUsage, `environment "a/b": not a name`},
		{[]string{"env", "remove"}, exitUsage, "takes one name"},
		{[]string{"env", "build", "--name", "../x"}, exitUsage, `build environment "../x": not a name`},
		{[]string{"env", "build", "--base", "nonsense"}, exitUsage, "use auto, registry, docker or debootstrap"},
		{[]string{"env", "remove", "absent", "--log-level", "warn"}, exitFailure, `there is no environment "absent"`},
		{[]string{"env", "remove", "absent"}, exitFailure, `there is no environment "absent"`},
		{[]string{"run", "--expose", "", "-"}, exitUsage, "write HOST"},
		{[]string{"run", "--timeout", "soon", "-"}, exitUsage, "--timeout"},
		{[]string{"doctor", "extra"}, exitUsage, "takes no argument"},
	}
	for _, tt := range tests {
		var out, errs bytes.Buffer
		got := run(t.Context(), process{strings.NewReader(""), &out, &errs, here}, tt.args)
		if got != tt.want || !strings.Contains(errs.String(), tt.says) {
			t.Errorf("biocage %q: exit code %d, want %d, %s", tt.args, got, tt.want, &errs)
		}
	}
}

// What this user may not do in the data directory is told with the setting and
// the remedy; other errors are left alone.
func TestDataFault(t *testing.T) {
	h := host{cfg: config.Config{DataDir: "/srv/biocage"}}
	fault := func(path string, err error) error {
		return fmt.Errorf("lock: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	for _, tt := range []struct {
		name string
		err  error
		told bool
	}{
		{"somebody else's", fault("/srv/biocage/environments/.default.lock", syscall.EACCES), true},
		{"itself", fault("/srv/biocage", syscall.EPERM), true},
		{"its parent", fault("/srv", syscall.EACCES), true},
		{"read-only", fault("/srv/biocage/agent", syscall.EROFS), true},
		{"another place", fault("/run/biocage/x", syscall.EACCES), false},
		{"a neighbour", fault("/srv/biocage-old/x", syscall.EACCES), false},
		{"another reason", fault("/srv/biocage/x", syscall.ENOSPC), false},
		{"no path", environment.ErrNotBuilt, false},
		{"none", nil, false},
	} {
		got := h.dataFault(tt.err)
		if !tt.told {
			if got != tt.err { //nolint:errorlint // the very same is meant
				t.Errorf("%s: %v", tt.name, got)
			}
			continue
		}
		for _, part := range []string{"data_dir (/srv/biocage)", "make /srv/biocage writable for this user, or set data_dir (BIOCAGE_DATA_DIR)"} {
			if !strings.Contains(got.Error(), part) || !errors.Is(got, tt.err) {
				t.Errorf("%s: %v does not say %q", tt.name, got, part)
			}
		}
	}
}

// A directory of somebody else's, as an ordinary user meets it.
func TestDataDirOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	binary := os.Getenv("BIOCAGE_TEST_BINARY")
	if binary == "" {
		t.Skip("BIOCAGE_TEST_BINARY names no binary")
	}
	top, err := os.MkdirTemp("/var/tmp", "biocage-data-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	program, data := filepath.Join(top, "biocage"), filepath.Join(top, "data")
	content, err := os.ReadFile(binary)
	for _, err := range []error{err, os.Chmod(top, 0o755), os.WriteFile(program, content, 0o755), os.Mkdir(data, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"env", "list"}, {"env", "build"}, {"env", "remove", "default"}, {"doctor"}} {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--engine", "gvisor"}, args...)...)
		cmd.Env = []string{"BIOCAGE_DATA_DIR=" + data, "HOME=" + top, "PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		out, _ := cmd.CombinedOutput() // the exit code is looked at below
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitFailure || !strings.Contains(string(out), "make "+data+" writable for this user, or set data_dir") {
			t.Errorf("%q: %s", args, out)
		}
	}
}
