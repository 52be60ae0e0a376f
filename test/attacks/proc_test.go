//go:build linux

package attacks

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// openFiles counts the file descriptors of a process.
func openFiles(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries), err
}

// forgetPeak makes the kernel count the peak of a process's memory anew.
func forgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200)
}

// peakMiB is the most memory that a process had resident since forgetPeak.
func peakMiB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmHWM", pid)
}

// sandboxes counts the server's sandboxes, from outside.
func (c *client) sandboxes(ctx context.Context) (int, error) {
	if c.engine == "docker" {
		ids, err := c.containers(ctx)
		return len(ids), err
	}
	all, err := descendants(c.PID())
	if err != nil {
		return 0, err
	}
	n := 0
	for _, pid := range all {
		if command, _, _ := strings.Cut(commandLine(pid), "\x00"); filepath.Base(command) == "runsc-sandbox" {
			n++
		}
	}
	return n, nil
}

// containers lists the ids of the server's containers, by the label that holds
// its process number.
func (c *client) containers(ctx context.Context) ([]string, error) {
	const label = "io.biocage.owner"
	out, err := exec.CommandContext(ctx, "docker", "ps", "--all", "--no-trunc",
		"--filter", "label="+label, "--format", `{{.ID}} {{.Label "`+label+`"}}`).Output()
	if err != nil {
		return nil, fmt.Errorf("docker ps: %w", err)
	}
	var ids []string
	for line := range strings.Lines(string(out)) {
		id, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(owner, strconv.Itoa(c.PID())+":") {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func commandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "" // it has ended
	}
	return string(text)
}

// descendants lists the processes below pid.
func descendants(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found, nil
}

// cpuSeconds is the CPU time that the session's sandbox has used, from the
// control group of one of its processes.
func (c *client) cpuSeconds(ctx context.Context) (float64, error) {
	pid, err := c.sandboxProcess(ctx)
	if err != nil {
		return 0, err
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(groups))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		switch {
		case len(parts) != 3 || parts[2] == "/":
		case parts[1] == "": // version 2
			stat, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", parts[2], "cpu.stat"))
			if err != nil {
				continue
			}
			var usec float64
			_, err = fmt.Sscanf(string(stat), "usage_usec %f", &usec)
			return usec / 1e6, err
		case strings.Contains(","+parts[1]+",", ",cpuacct,"):
			text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", "cpuacct", parts[2], "cpuacct.usage"))
			if err != nil {
				return 0, err
			}
			nsec, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			return nsec / 1e9, err
		}
	}
	return 0, fmt.Errorf("the sandbox's process %d is in no control group for CPU", pid)
}

// sandboxProcess is a host process of the session's sandbox.
func (c *client) sandboxProcess(ctx context.Context) (int, error) {
	if err := c.learn(ctx); err != nil {
		return 0, err
	}
	if c.engine == "docker" {
		out, err := exec.CommandContext(ctx, "docker", "inspect", "--format", "{{.State.Pid}}", c.sandbox).Output()
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(out)))
	}
	all, err := descendants(c.PID())
	if err != nil {
		return 0, err
	}
	for _, pid := range all {
		command := commandLine(pid)
		if strings.Contains(command, c.sandbox) && filepath.Base(strings.SplitN(command, "\x00", 2)[0]) == "runsc-sandbox" {
			return pid, nil
		}
	}
	return 0, errors.New("the sandbox has no process")
}
