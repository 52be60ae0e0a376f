//go:build linux && (amd64 || arm64)

package gvisor

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// guestChannel is the agent channel's descriptor inside the sandbox.
const guestChannel = 10

const channelArg = "fd:10,10"

// newChannel makes the two ends of the agent channel: one for Go's poller
// (with deadlines, without a thread of its own), one to give away.
func newChannel() (host net.Conn, guest *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the agent channel: %w", err)
	}
	mine := os.NewFile(uintptr(pair[0]), "agent channel")
	guest = os.NewFile(uintptr(pair[1]), "agent channel "+strconv.Itoa(guestChannel))
	host, err = net.FileConn(mine) // duplicates
	_ = mine.Close()
	if err != nil {
		_ = guest.Close()
		return nil, nil, fmt.Errorf("make the agent channel: %w", err)
	}
	return host, guest, nil
}
