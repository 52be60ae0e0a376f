package environment

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropCapabilities takes the file capabilities of a file: they are privileges
// like setuid bits.
func dropCapabilities(name string) error {
	err := unix.Lremovexattr(name, "security.capability")
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// namespaceRemedy says what to do where namespaces are refused.
const namespaceRemedy = "building needs mount namespaces: run as root, or allow unprivileged user namespaces; inside a container add --cap-add SYS_ADMIN"

// errNoNamespaces is the system's word when namespaces are refused.
const errNoNamespaces = unix.EPERM

// namespaces isolates a command of a build. Without privileges a user
// namespace comes first: its root is this process's own user.
func namespaces(network bool) *syscall.SysProcAttr {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !network {
		flags |= unix.CLONE_NEWNET
	}
	attr := &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if os.Geteuid() != 0 {
		flags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	attr.Cloneflags = uintptr(flags)
	return attr
}

// canBecomeNobody tells whether a step can drop to an unprivileged user. In a
// user namespace with one id there is no other user; then the step runs as
// this process's own user, which has no privileges to drop.
func canBecomeNobody() bool { return os.Geteuid() == 0 }
