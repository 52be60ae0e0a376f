//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// killLimit is how long killed processes may take to be gone.
const killLimit = 5 * time.Second

// killAll ends processes that are not children of this one and waits until
// they are gone. Each is held by a descriptor, so that a pid that is used
// again is never hit.
func killAll(pids []int) error {
	var errs []error
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err == nil {
			err = killAndWait(fd)
			_ = unix.Close(fd)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("end process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

func killAndWait(pidfd int) error {
	err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	deadline := time.Now().Add(killLimit)
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(time.Until(deadline).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case ready == 0:
			return errors.New("it does not end after SIGKILL")
		}
		return nil
	}
}
