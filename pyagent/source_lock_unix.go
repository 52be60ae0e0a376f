//go:build unix

package pyagent

import (
	"errors"
	"os"
	"syscall"
)

// lock takes an advisory lock on an open folder. Several may share it; who
// wants it alone does not wait, and got tells whether they have it.
func lock(folder *os.File, shared bool) (got bool, err error) {
	how := syscall.LOCK_EX | syscall.LOCK_NB
	if shared {
		how = syscall.LOCK_SH
	}
	for {
		err = syscall.Flock(int(folder.Fd()), how)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}
