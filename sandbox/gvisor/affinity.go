//go:build linux && (amd64 || arm64)

package gvisor

import (
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// pinCPUs confines a process to n of the processors it may use: the CPU limit
// where there are no control groups. Threads and processes made later inherit
// it, so it is repeated until no thread is found that lacks it.
func pinCPUs(pid, n int) error {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &allowed); err != nil {
		return fmt.Errorf("read the sandbox's processors: %w", err)
	}
	if n >= allowed.Count() {
		return nil
	}
	chosen := choose(allowed, n)
	for range 10 {
		changed, err := pinTasks(pid, chosen)
		if err != nil {
			return fmt.Errorf("limit the sandbox's processors: %w", err)
		}
		if !changed {
			return nil
		}
	}
	return errors.New("limit the sandbox's processors: it makes threads faster than they can be confined")
}

func pinTasks(pid int, want unix.CPUSet) (changed bool, err error) {
	tids, err := tasks(pid)
	if err != nil {
		return false, err
	}
	for _, tid := range tids {
		var now unix.CPUSet
		err := unix.SchedGetaffinity(tid, &now)
		if err == nil && now != want {
			changed = true
			err = unix.SchedSetaffinity(tid, &want)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return changed, err
		}
	}
	return changed, nil
}

// choose takes n processors of a set, beginning anywhere, so that several
// sandboxes do not crowd the first ones.
func choose(allowed unix.CPUSet, n int) unix.CPUSet {
	var cpus []int
	for i := range len(allowed) * 64 {
		if allowed.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	var raw [2]byte
	_, _ = rand.Read(raw[:]) // never fails
	start := (int(raw[0])<<8 | int(raw[1])) % len(cpus)
	var chosen unix.CPUSet
	for i := range n {
		chosen.Set(cpus[(start+i)%len(cpus)])
	}
	return chosen
}
