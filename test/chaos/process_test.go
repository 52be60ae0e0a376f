//go:build linux

package chaos

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// docker runs the docker command, which must work.
func (l lab) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := l.command(t, args...)
	if err != nil {
		t.Fatalf("docker %v: %v\n%s", args, err, out)
	}
	return out
}

// command runs the docker command.
func (l lab) command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = l.env
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// processes finds those whose command line holds all words.
func processes(t *testing.T, words ...string) []int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, line := range lines {
		raw, err := os.ReadFile(line)
		if err != nil {
			continue // it has just ended
		}
		all := true
		for _, word := range words {
			all = all && strings.Contains(string(raw), word)
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(line)))
		if err == nil && all && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// signal sends a signal to processes that must be there.
func signal(t *testing.T, sig syscall.Signal, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("there is no such process")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
}

// readySandbox waits for the sandbox that is kept ready and gives its name.
func (l lab) readySandbox(t *testing.T, c *client) string {
	t.Helper()
	for deadline := time.Now().Add(worksWithin); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if l.engine == "docker" {
			label := "label=io.biocage.owner"
			for line := range strings.Lines(l.docker(t, "ps", "--no-trunc", "--filter", label, "--format", `{{.ID}} {{.Label "io.biocage.owner"}}`)) {
				id, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
				if strings.HasPrefix(owner, strconv.Itoa(c.PID())+":") {
					return id
				}
			}
			continue
		}
		for _, pid := range processes(t, "runsc-sandbox") {
			if id, ours := l.sandboxOf(pid, c.PID()); ours {
				return id
			}
		}
	}
	t.Fatal("no sandbox is kept ready")
	return ""
}

// sandboxOf gives the name of the sandbox of a gVisor process that is a child
// of the server.
func (l lab) sandboxOf(pid, server int) (id string, ours bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return "", false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(fields) < 2 || fields[1] != strconv.Itoa(server) {
		return "", false
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	return args[len(args)-1], true
}

// used is what a process holds: descriptors and children.
func used(t *testing.T, pid int) (descriptors, threads int) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		t.Fatal(err)
	}
	return len(fds), len(tasks)
}
