//go:build linux

package usernet

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pairBytes is how much each end of a link may hold. What finds no room is
// dropped, as networks do, and costs speed.
const pairBytes = 4 << 20

// Pair makes a link: two ends of a socket pair whose packets keep their bounds.
func Pair() (sandbox, outside *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the sandbox's link: %w", err)
	}
	for _, fd := range pair {
		// The first is bounded by the system's settings, the second needs root.
		for _, option := range []int{unix.SO_SNDBUF, unix.SO_SNDBUFFORCE} {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, pairBytes) // else it holds less
		}
	}
	return os.NewFile(uintptr(pair[0]), "the sandbox's end"), os.NewFile(uintptr(pair[1]), "the outer end"), nil
}
