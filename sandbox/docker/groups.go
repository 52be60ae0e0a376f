package docker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// groups are the host's control groups of one container: directories that
// only the kernel writes. With version 2 all three are the same.
type groups struct {
	v2                bool
	memory, cpu, pids string
}

// findGroups locates the control groups of the process pid, or nil where they
// cannot be seen (then the daemon is asked for statistics instead).
func findGroups(pid int) *groups {
	member, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	g := locate(member, mounts)
	if g == nil {
		return nil
	}
	if _, err := os.Stat(g.memory); err != nil {
		return nil
	}
	return g
}

// locate joins a process's /proc/PID/cgroup with the mounts of the hierarchies.
func locate(member, mountinfo []byte) *groups {
	dirs := map[string]string{}
	scan := bufio.NewScanner(bytes.NewReader(member))
	for scan.Scan() {
		part := strings.SplitN(scan.Text(), ":", 3)
		if len(part) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(part[1], ",") {
			if dir := hierarchy(mountinfo, controller, part[2]); dir != "" {
				dirs[controller] = dir
			}
		}
	}
	switch {
	case dirs["memory"] != "":
		return &groups{memory: dirs["memory"], cpu: dirs["cpuacct"], pids: dirs["pids"]}
	case dirs[""] != "":
		return &groups{v2: true, memory: dirs[""], cpu: dirs[""], pids: dirs[""]}
	}
	return nil
}

// hierarchy is the directory of path in the mounted hierarchy of controller,
// where "" is version 2; "" when it is not mounted or path is outside of it.
func hierarchy(mountinfo []byte, controller, path string) string {
	scan := bufio.NewScanner(bytes.NewReader(mountinfo))
	for scan.Scan() {
		// ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAGS] - TYPE SOURCE SUPEROPTIONS
		before, after, ok := strings.Cut(scan.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 {
			continue
		}
		if controller == "" && right[0] != "cgroup2" {
			continue
		}
		if controller != "" && (right[0] != "cgroup" || !hasWord(right[2], controller)) {
			continue
		}
		if rel, err := filepath.Rel(left[3], path); err == nil && !strings.HasPrefix(rel, "..") {
			return filepath.Join(left[4], rel)
		}
	}
	return ""
}

func hasWord(list, word string) bool {
	return slices.Contains(strings.Split(list, ","), word)
}

// read measures. It fails with fs.ErrNotExist when the container has ended.
func (g *groups) read() (sandbox.Stats, error) {
	stats := sandbox.Stats{OOMKills: -1, CPU: -1, PIDs: -1}
	usageFile, cacheKey, oomFile := "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control"
	if g.v2 {
		usageFile, cacheKey, oomFile = "memory.current", "inactive_file", "memory.events"
	}
	usage, err := readNumber(filepath.Join(g.memory, usageFile))
	if err != nil {
		return stats, err
	}
	// Page cache that the kernel drops when asked is not the sandbox's need.
	if cache, err := readKey(filepath.Join(g.memory, "memory.stat"), cacheKey); err == nil {
		usage = max(0, usage-cache)
	}
	stats.MemoryBytes = usage
	if kills, err := readKey(filepath.Join(g.memory, oomFile), "oom_kill"); err == nil {
		stats.OOMKills = kills
	}
	if n, err := readNumber(filepath.Join(g.pids, "pids.current")); err == nil {
		stats.PIDs = int(n)
	}
	if g.v2 {
		if used, err := readKey(filepath.Join(g.cpu, "cpu.stat"), "usage_usec"); err == nil {
			stats.CPU = time.Duration(used) * time.Microsecond
		}
	} else if used, err := readNumber(filepath.Join(g.cpu, "cpuacct.usage")); err == nil {
		stats.CPU = time.Duration(used)
	}
	return stats, nil
}

func readNumber(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func readKey(path, key string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errors.New("no " + key)
}
