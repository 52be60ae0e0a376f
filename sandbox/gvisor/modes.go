//go:build linux && (amd64 || arm64)

package gvisor

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A read-write exposure shows files under their host owner's id, so a sandbox
// that could set a set-user-id bit there would plant a program that runs with
// its owner's rights on the host. gVisor's own filters allow chmod and open
// with any mode; this one, which its host processes get before they start,
// refuses those bits and knows nothing else.

// specialBits are set-user-id and set-group-id.
const specialBits = unix.S_ISUID | unix.S_ISGID

// refuseSpecialBits installs the filter for all threads of this process and
// all that it starts.
func refuseSpecialBits() error {
	filter := specialBitsFilter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	install := func() error {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))) //nolint:gosec // the kernel copies it
		runtime.KeepAlive(filter)
		if errno != 0 {
			return errno
		}
		return nil
	}
	if err := install(); err != nil {
		return fmt.Errorf("install the filter of file modes: %w", err)
	}
	return nil
}

// specialBitsFilter is classic BPF over struct seccomp_data: the number at
// offset 0, argument n (its low half; both architectures are little-endian) at
// 16 + 8n.
func specialBitsFilter() []unix.SockFilter {
	program := []unix.SockFilter{load(0)}
	for _, rule := range modeCalls() {
		program = append(program, rule.check()...)
	}
	// openat2 hides its mode behind a pointer; whoever gets ENOSYS takes openat.
	program = append(program,
		jump(unix.BPF_JEQ, unix.SYS_OPENAT2, 1),
		answer(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
		answer(unix.SECCOMP_RET_ALLOW))
	return program
}

// A modeCall is a system call that takes a file mode.
type modeCall struct {
	number uint32
	mode   uint32 // which argument is the mode
	flags  int32  // which argument says whether a file is created, or -1
}

// check is the rule for one call: five instructions, seven with flags.
func (m modeCall) check() []unix.SockFilter {
	verdict := []unix.SockFilter{
		load(16 + 8*m.mode),
		jump(unix.BPF_JSET, specialBits, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	if m.flags >= 0 {
		// Without creation the mode means nothing and may be anything.
		verdict = append([]unix.SockFilter{
			load(16 + 8*uint32(m.flags)),
			jump(unix.BPF_JSET, unix.O_CREAT|(unix.O_TMPFILE&^unix.O_DIRECTORY), 3),
		}, verdict...)
	}
	return append([]unix.SockFilter{jump(unix.BPF_JEQ, m.number, uint8(len(verdict)))}, verdict...)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// jump goes on with the next instruction when the test holds, else ifFalse further.
func jump(test uint16, value uint32, ifFalse uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: ifFalse, K: value}
}

func answer(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

// commonModeCalls are those that both architectures have.
func commonModeCalls() []modeCall {
	return []modeCall{
		{unix.SYS_OPENAT, 3, 2},
		{unix.SYS_FCHMOD, 1, -1},
		{unix.SYS_FCHMODAT, 2, -1},
		{unix.SYS_FCHMODAT2, 2, -1},
		{unix.SYS_MKNODAT, 2, -1},
	}
}
