//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// What the kernel's memory killer thinks of a sandbox's host processes: it
// takes them before the rest of the host, and those that carry processes of
// the sandbox before the sentry. So a memory limit ends the process that
// breaks it, as it would on the host, and the sandbox lives on.
const (
	oomKernel = "300"
	oomGuest  = "900"
)

// confine puts the host processes under their limits. The sentry has made
// processes already, from which those of user code will descend; it is
// repeated until no new one is found.
func (s *starter) confine() error {
	done := map[int]bool{}
	for range 10 {
		pids, err := withChildren(s.cont.Sandbox.Getpid())
		if err != nil {
			return fmt.Errorf("find the sandbox's processes: %w", err)
		}
		fresh := slices.DeleteFunc(append(pids, s.others()...), func(pid int) bool { return done[pid] })
		if len(fresh) == 0 {
			return nil
		}
		for _, pid := range fresh {
			if err := s.confineOne(pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			done[pid] = true
		}
	}
	return errors.New("confine the sandbox: it makes processes faster than they can be confined")
}

// others are the sandbox's host processes that the sentry did not make.
func (s *starter) others() []int {
	all := []int{s.cont.GoferPid.Load()}
	if s.uplink != nil {
		all = append(all, s.uplink.process.Pid)
	}
	return all
}

func (s *starter) confineOne(pid int) error {
	if err := s.offer(pid); err != nil {
		return err
	}
	if s.group != nil {
		return s.group.add(pid)
	}
	return pinCPUs(pid, s.bundle.wholeCPUs())
}

// offer sets what the memory killer thinks of a process. Only root may look
// into the processes of gVisor, which hide from everybody else.
func (s *starter) offer(pid int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	score := oomGuest
	if pid == s.cont.Sandbox.Getpid() || slices.Contains(s.others(), pid) {
		score = oomKernel
	}
	err := writeFile("/proc/"+strconv.Itoa(pid), "oom_score_adj", score)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("tell the memory killer about the sandbox: %w", err)
	}
	return nil
}
