//go:build linux && amd64

package gvisor

import "golang.org/x/sys/unix"

func modeCalls() []modeCall {
	return append(commonModeCalls(),
		modeCall{unix.SYS_OPEN, 2, 1}, modeCall{unix.SYS_CREAT, 1, -1},
		modeCall{unix.SYS_CHMOD, 1, -1}, modeCall{unix.SYS_MKNOD, 1, -1})
}
