//go:build linux && (amd64 || arm64)

package gvisor

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// procStartTime reads a process's start in clock ticks after boot: with the
// pid and the boot it names a process for good.
func procStartTime(pid int) (uint64, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, fs.ErrNotExist // it has ended; its parent has not asked yet
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// statFields are those after the name, which is in parentheses and may hold
// anything: the state, the parent, and so on.
func statFields(pid int) ([]string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat has an unknown form", pid)
	}
	return fields, nil
}

func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw)), err
}

// findParts lists the processes of gVisor that were started with the state
// directory given, as their --root argument tells.
func findParts(stateDir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it ended meanwhile
		}
		if isPart(strings.Split(string(raw), "\x00"), stateDir) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func isPart(argv []string, stateDir string) bool {
	if kind, _ := classify(argv); kind != partRunsc && kind != partNetwork {
		return false
	}
	for i, arg := range argv {
		if arg == "--root="+stateDir || arg == "--root" && i+1 < len(argv) && argv[i+1] == stateDir {
			return true
		}
	}
	return false
}

// withChildren lists a process and all that descends from it.
func withChildren(pid int) ([]int, error) {
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
		fields, err := statFields(child)
		if err != nil {
			continue // it ended meanwhile
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// tasks lists the threads of a process.
func tasks(pid int) ([]int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	tids := make([]int, 0, len(entries))
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// argvEndsIn tells whether a process's last argument is the one given: gVisor
// puts a sandbox's id there.
func argvEndsIn(pid int, last string) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	argv := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	return argv[len(argv)-1] == last
}
