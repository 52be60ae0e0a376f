package hostmount

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// userNamespace makes a user namespace whose map swaps the two user ids and
// the two group ids and leaves every other id alone. Only its descriptor is
// used, as the map of a mount.
//
// A namespace needs a process to be born in. PTRACE_TRACEME stops that child
// at its exec, before it runs one instruction of the program, which therefore
// may be any: this very binary, which is always there. It is killed as soon as
// its namespace is open. (Container runtimes do the same.)
func userNamespace(uid1, uid2, gid1, gid2 int) (_ *os.File, err error) {
	// The child is stopped for this thread, its tracer, and would go on if the
	// thread ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := os.StartProcess("/proc/self/exe", []string{"biocage-user-namespace"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: swap(uid1, uid2),
			GidMappings: swap(gid1, gid2),
			Ptrace:      true,
			Pdeathsig:   syscall.SIGKILL,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() {
		killErr := child.Kill()
		_, waitErr := child.Wait()
		err = errors.Join(err, killErr, waitErr)
	}()
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", child.Pid))
	if err != nil {
		return nil, fmt.Errorf("open a user namespace: %w", err)
	}
	return namespace, nil
}

// swap is the map under which id a on disk is seen as b, and b as a.
func swap(a, b int) []syscall.SysProcIDMap {
	const ids = 1<<32 - 1 // the last one means "none"
	lo, hi := min(a, b), max(a, b)
	var all []syscall.SysProcIDMap
	add := func(from, to, size int) {
		if size > 0 {
			all = append(all, syscall.SysProcIDMap{ContainerID: from, HostID: to, Size: size})
		}
	}
	add(0, 0, lo)
	add(lo, hi, 1)
	if lo != hi {
		add(lo+1, lo+1, hi-lo-1)
		add(hi, lo, 1)
	}
	add(hi+1, hi+1, ids-hi-1)
	return all
}
