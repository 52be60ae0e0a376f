//go:build linux && (amd64 || arm64)

package gvisor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/sandboxtest"
)

func TestSuite(t *testing.T) {
	root := testRootfs(t)
	testEngine(t, nil) // skips where no sandbox can run
	privileged := os.Geteuid() == 0
	sandboxtest.Run(t, sandboxtest.Options{
		New:  newSuiteEngine,
		Root: sandbox.Root{Dir: root},
		PIDs: hostPIDs,
		Left: left,
		Dead: dead,
		Promise: sandboxtest.Promise{
			Seccomp: true, UID: privileged, MemoryKillsChild: privileged, OOMCounted: privileged,
			Namespaces: []string{"pid", "net", "ipc", "uts", "mnt", "user"},
		},
	})
}

// hostPIDs are the sentry and the gofer.
func hostPIDs(s sandbox.Sandbox) ([]int, error) {
	all, err := instances(suiteRun)
	var pids []int
	for _, in := range all {
		found, err := findParts(in.state())
		if err != nil {
			return nil, err
		}
		pids = append(pids, slices.DeleteFunc(found, func(pid int) bool { return !argvEndsIn(pid, s.ID()) })...)
	}
	return pids, err
}

// left lists instances, sandboxes, processes, mounts and control groups.
func left() ([]string, error) {
	var items []string
	group := groupPrefix(suiteRun) + "*/gv-*"
	for _, pattern := range []string{suiteRun + "/*/gv-*", "/sys/fs/cgroup/*/" + group, "/sys/fs/cgroup/*/*/*/" + group} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, dir := range found {
			items = append(items, sandboxtest.Reapable+dir)
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range processes {
		raw, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(raw), "runsc") && strings.Contains(string(raw), suiteRun) {
			items = append(items, file)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, suiteRun) {
			items = append(items, line)
		}
	}
	return items, err
}

// dead makes an instance whose owner's pid belongs to another process by now.
func dead(t *testing.T) string {
	t.Helper()
	in, err := newInstance(suiteRun)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(owner{PID: os.Getpid(), Start: 1, Boot: boot})
	if err != nil {
		t.Fatal(err)
	}
	id := sandboxPrefix + "dead" + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(filepath.Join(in.dir, ownerFile), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(in.sandboxDir(id), 0o755); err != nil {
		t.Fatal(err)
	}
	return sandboxtest.Reapable + in.sandboxDir(id)
}
