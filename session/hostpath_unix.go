//go:build unix

package session

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps the opening of a pipe from blocking.
const nonblock = syscall.O_NONBLOCK

// linkCount gives the number of names of a file.
func linkCount(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink) //nolint:unconvert // its type differs by platform
	}
	return 1
}

// realPath tells where an open file is, links resolved; fallback where the
// platform cannot tell.
func realPath(f *os.File, fallback string) string {
	p, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return fallback
	}
	return p
}
