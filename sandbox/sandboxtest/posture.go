//go:build unix

package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// testPosture reads from the host what the kernel grants every process of a
// sandbox, whatever the engine was asked for.
func (s *suite) testPosture(t *testing.T, e sandbox.Engine) {
	if s.PIDs == nil {
		t.Log("does not apply: this engine's processes cannot be told from the host's")
		return
	}
	first, second := s.create(t, e), s.create(t, e)
	first.ask("eval_request", []byte("import time\ntime.sleep(300)"))
	seen := map[string]string{} // host user -> sandbox
	for _, b := range []*box{first, second} {
		var pids []int
		eventually(t, patience, func() string {
			var err error
			pids, err = s.PIDs(b)
			if err != nil || len(pids) == 0 {
				return fmt.Sprintf("no processes: %v", err)
			}
			return ""
		})
		for _, pid := range pids {
			if pid == os.Getpid() {
				t.Fatal("the sandbox's processes include the test itself")
			}
			s.processPosture(t, pid, b.ID(), seen)
		}
	}
}

func (s *suite) processPosture(t *testing.T, pid int, id string, seen map[string]string) {
	t.Helper()
	status, err := processStatus(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return // it ended meanwhile
	}
	if err != nil {
		t.Fatal(err)
	}
	expect := func(key, want string) {
		t.Helper()
		if got := status[key]; got != want {
			t.Errorf("process %d (%s): %s is %q, want %q", pid, status["Name"], key, got, want)
		}
	}
	if s.Promise.Caps {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			expect(set, "0000000000000000")
		}
		expect("NoNewPrivs", "1")
	}
	if s.Promise.Seccomp {
		expect("Seccomp", "2")
	}
	if s.Promise.UID {
		uid := strings.Fields(status["Uid"])[0]
		if uid == "0" {
			t.Errorf("process %d (%s) is root on the host", pid, status["Name"])
		}
		if other, ok := seen[uid]; ok && other != id {
			t.Errorf("two sandboxes share the host user %s", uid)
		}
		seen[uid] = id
	}
	for _, name := range s.Promise.Namespaces {
		theirs, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		ours, ownErr := os.Readlink("/proc/thread-self/ns/" + name)
		if err != nil || ownErr != nil {
			t.Fatal(err, ownErr)
		}
		if theirs == ours {
			t.Errorf("process %d (%s) shares the host's %s namespace", pid, status["Name"], name)
		}
	}
}

func processStatus(pid int) (map[string]string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return nil, err
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	return status, nil
}
