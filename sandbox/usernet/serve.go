//go:build linux

package usernet

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// What a process that serves a sandbox may have.
const (
	maxFiles    = maxTCP + maxUDP + 128
	memoryBytes = 96 << 20 // where the collector begins to work hard
)

// Serve is the life of a process that does nothing else: it serves the link
// until lease ends, which is when the process that started it does.
func Serve(lease io.Reader, link *os.File) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: maxFiles, Max: maxFiles}); err != nil {
		return fmt.Errorf("limit open files: %w", err)
	}
	debug.SetMemoryLimit(memoryBytes)
	// Nothing closes it: the process ends.
	if _, err := New(link, Options{Resolvers: HostResolvers}); err != nil {
		return err
	}
	defer runtime.KeepAlive(link)
	if _, err := io.Copy(io.Discard, lease); err != nil {
		return fmt.Errorf("wait for the end: %w", err)
	}
	return nil
}

// HostResolvers are those of the host's resolv.conf as it is now.
func HostResolvers() []netip.AddrPort {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return ParseResolvers("") // as the C library does
	}
	return ParseResolvers(string(text))
}
