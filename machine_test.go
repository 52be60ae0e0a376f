package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/biocypher/biocage-mcp/environment"
)

// What root has built is found by an ordinary user, who cannot remove it.
func TestOrdinaryUserFindsTheMachinesEnvironments(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	binary := os.Getenv("BIOCAGE_TEST_BINARY")
	if binary == "" {
		t.Skip("BIOCAGE_TEST_BINARY names no binary")
	}
	if _, err := os.Stat(filepath.Join(environment.MachineDataDir, "environments", environment.DefaultName, "current")); err != nil {
		t.Skipf("root has built no environment: %v", err)
	}
	top, err := os.MkdirTemp("/var/tmp", "biocage-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	program := filepath.Join(top, "biocage")
	content, err := os.ReadFile(binary)
	for _, err := range []error{err, os.WriteFile(program, content, 0o755), os.Chown(top, 12345, 12345)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"env", "list"}, exitOK, environment.DefaultName},
		{[]string{"env", "remove", environment.DefaultName}, exitFailure, "belongs to the machine, in " + environment.MachineDataDir + "; remove it with sudo"},
		{[]string{"doctor"}, -1, "ok       environment  default: Python"},
	} {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--engine", "gvisor"}, tt.args...)...)
		cmd.Env = []string{"HOME=" + top, "PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		out, _ := cmd.CombinedOutput() // the exit code is looked at below
		if cmd.ProcessState == nil || tt.code >= 0 && cmd.ProcessState.ExitCode() != tt.code || !strings.Contains(string(out), tt.says) {
			t.Errorf("%q: %s", tt.args, out)
		}
	}
	if _, err := os.Stat(filepath.Join(top, ".local", "share", "biocage", "environments")); err != nil {
		t.Errorf("the user has no data directory of their own: %v", err)
	}
}
