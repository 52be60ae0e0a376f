//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want part
		args []string
	}{
		{nil, partNone, nil},
		{[]string{"biocage", "serve"}, partNone, nil},
		{[]string{"/usr/bin/biocage"}, partNone, nil},
		{[]string{"biocage", "run", "__gvisor"}, partNone, nil},
		{[]string{"gvisor-sentry-prewarmer"}, partNone, nil},
		{[]string{"gvisor-sentry-prewarmer", "/bin/x"}, partNone, nil},
		{[]string{"runsc-sandbox", "boot"}, partRunsc, []string{"runsc-sandbox", "boot"}},
		{[]string{"runsc-gofer", "gofer"}, partRunsc, []string{"runsc-gofer", "gofer"}},
		{[]string{"/proc/self/exe", "umount"}, partRunsc, []string{"/proc/self/exe", "umount"}},
		{[]string{"/run/x/gvisor_sentry", "boot"}, partRunsc, []string{"/run/x/gvisor_sentry", "boot"}},
		{[]string{"biocage", "__gvisor", "state", "id"}, partRunsc, []string{"runsc", "state", "id"}},
		{[]string{"/x/gvisor-sentry-prewarmer", "/bin/x", "x", "y"}, partPrewarm, []string{"/bin/x", "x", "y"}},
		{[]string{probePath, "--channel=fd:10,10"}, partProbe, nil},
		{[]string{networkName, "--root=/run/x", "id"}, partNetwork, nil},
	} {
		got, args := classify(c.argv)
		if diff := cmp.Diff(c.args, args); got != c.want || diff != "" {
			t.Errorf("classify(%q) = %v: %s", c.argv, got, diff)
		}
	}
}

// TestDispatch starts this very binary in each of its parts.
func TestDispatch(t *testing.T) {
	for _, c := range []struct {
		name   string
		argv   []string
		output string
		code   int
	}{
		{"the sentry and the gofer", []string{"runsc-sandbox", "--version"}, "runsc version", 0},
		{"the /proc unmounter", []string{"/proc/self/exe", "--version"}, "runsc version", 0},
		{"the sentry as a sidecar", []string{"/x/gvisor_sentry", "--version"}, "runsc version", 0},
		{"the hidden argument", []string{"biocage", hiddenArg, "--version"}, "runsc version", 0},
		{"the prewarmer", []string{"/x/gvisor-sentry-prewarmer", "/bin/sh", "sh", "-c", "echo warm"}, "warm", 0},
		{"the prewarmer of nothing", []string{"gvisor-sentry-prewarmer", "/nowhere", "x"}, "cannot execute /nowhere", exitDispatch},
		{"the probe", []string{probePath}, "", probeExit},
		{"an unknown command", []string{"runsc", "nothing"}, "Usage: runsc", exitDispatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Path, cmd.Args, cmd.Env = executable(t), c.argv, []string{}
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.output) {
				t.Errorf("exit code %d, want %d; output %q, want %q in it", code, c.code, out, c.output)
			}
		})
	}
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBootArgs(t *testing.T) {
	dir := t.TempDir()
	if err := (bootView{CPUs: 3, MemoryBytes: 1 << 30}).write(dir); err != nil {
		t.Fatal(err)
	}
	boot := func(bundle string) []string {
		return []string{"runsc-sandbox", "--root=/r", "boot", "--bundle=" + bundle, "--total-memory", "99", "--attached", "id"}
	}
	for _, c := range []struct{ in, want []string }{
		{boot(dir), []string{
			"runsc-sandbox", "--root=/r", "boot", "--cpu-num=3", "--bundle=" + dir, "--total-memory", "1073741824", "--attached", "id",
		}},
		{boot("/nowhere"), boot("/nowhere")},
		{[]string{"runsc-gofer", "gofer", "--bundle=" + dir}, []string{"runsc-gofer", "gofer", "--bundle=" + dir}},
	} {
		if diff := cmp.Diff(c.want, bootArgs(c.in)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPrecompiledSeccomp(t *testing.T) {
	if len(precompiled) == 0 {
		t.Skip("no programs for this architecture")
	}
	all, err := decodePrecompiled()
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Boot) == 0 || len(all.Gofer) == 0 {
		t.Fatalf("%d programs for the sentry, %d for the gofer", len(all.Boot), len(all.Gofer))
	}
	registerPrecompiled([]string{"runsc-sandbox", "boot"})
	registerPrecompiled([]string{"runsc-gofer", "gofer"})
	if len(bootPrograms) < len(all.Boot) || len(goferPrograms) < len(all.Gofer) {
		t.Error("gVisor does not hold the programs; has it changed where it looks for them?")
	}
}
