package remains

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type process struct {
	identity
	parent  int
	ended   bool // a zombie: its parent has not asked for it yet
	command string
}

// processes lists what /proc shows. A process that ends meanwhile is left out.
func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		dir := filepath.Join("/proc", entry.Name())
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has just ended
		}
		p, err := parseStat(pid, string(stat))
		if err != nil {
			return nil, err
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && len(line) > 0 {
			p.command = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
		all = append(all, p)
	}
	return all, nil
}

// parseStat reads /proc/PID/stat. The name in brackets may hold anything,
// brackets and spaces too, so the fields are counted from its end.
func parseStat(pid int, stat string) (process, error) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("unreadable status of process %d: %q", pid, stat)
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 {
		return process{}, fmt.Errorf("unreadable status of process %d: %q", pid, stat)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, errors.New("unreadable parent of process " + strconv.Itoa(pid))
	}
	return process{
		identity: identity{pid: pid, start: fields[19]},
		parent:   parent,
		ended:    fields[0] == "Z" || fields[0] == "X",
		command:  stat[open+1 : end],
	}, nil
}

// family finds the descendants of pid, and of the processes that name one of
// the sandboxes in their command (a container's shim is the child of init).
func family(all []process, pid int, boxes map[string]bool) []process {
	children := map[int][]process{}
	var found []process
	roots := []int{pid}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if p.pid != pid && mentions(p.command, boxes) {
			found = append(found, p)
			roots = append(roots, p.pid)
		}
	}
	done := map[int]bool{}
	for len(roots) > 0 {
		at := roots[0]
		roots = roots[1:]
		if done[at] {
			continue
		}
		done[at] = true
		for _, child := range children[at] {
			found = append(found, child)
			roots = append(roots, child.pid)
		}
	}
	return found
}
