package hostmount

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// place makes the mount point and moves the tree onto it. It runs inside the
// sandbox's namespace, where names are the sandbox's: every step is taken from
// a directory already held, follows no symbolic link and, below the live root,
// leaves its file system for no other (an exposure made before).
func place(tree int, sandboxRoot, liveRoot string, names []string, directory bool) error {
	dir, err := openLiveRoot(sandboxRoot, liveRoot)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	for _, name := range names[:len(names)-1] {
		next, err := openBelow(dir, name, true)
		if err != nil {
			return err
		}
		_ = unix.Close(dir)
		dir = next
	}
	last := names[len(names)-1]
	point, err := openBelow(dir, last, directory)
	if errors.Is(err, ErrBusy) {
		if err := displace(dir, last, directory); err != nil {
			return err
		}
		point, err = openBelow(dir, last, directory)
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(point) }()
	if err := unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		flags := 0
		if directory {
			flags = unix.AT_REMOVEDIR
		}
		return errors.Join(fmt.Errorf("attach: %w", err), unix.Unlinkat(dir, last, flags))
	}
	return nil
}

// displace takes away what was attached at name in dir before: the host's file
// behind it may have been replaced, and exposing it again must show the new
// one. Anything else that is in the way stays.
func displace(dir int, name string, directory bool) error {
	old, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return fmt.Errorf("open what is attached at %s: %w", name, err)
	}
	var stat unix.Stat_t
	err = unix.Fstat(old, &stat)
	_ = unix.Close(old)
	if err != nil || (stat.Mode&unix.S_IFMT == unix.S_IFDIR) != directory {
		return errors.Join(fmt.Errorf("%w: %s", ErrBusy, name), err)
	}
	// There is no call that detaches by descriptor. The working directory is
	// this thread's own here, and only root can change names in dir.
	if err := unix.Fchdir(dir); err != nil {
		return fmt.Errorf("reach what is attached at %s: %w", name, err)
	}
	if err := unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBusy, name, err) // not a mount
	}
	return nil
}

// openLiveRoot opens the live root and refuses one that others could write,
// where the sandbox's code could swap the mount point for a link.
func openLiveRoot(sandboxRoot, liveRoot string) (int, error) {
	root, err := unix.Open(sandboxRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, fmt.Errorf("open the sandbox's root: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	dir, err := unix.Openat2(root, strings.TrimPrefix(liveRoot, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("open %s in the sandbox: %w", liveRoot, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(dir, &stat); err != nil {
		return -1, errors.Join(fmt.Errorf("stat %s in the sandbox: %w", liveRoot, err), unix.Close(dir))
	}
	if stat.Mode&0o022 != 0 {
		return -1, errors.Join(fmt.Errorf("%s in the sandbox is writable by its user", liveRoot), unix.Close(dir))
	}
	return dir, nil
}

// openBelow opens name in dir, making it when it is missing.
func openBelow(dir int, name string, directory bool) (int, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	if directory {
		how.Flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Openat2(dir, name, how)
	if errors.Is(err, unix.ENOENT) {
		if err := makePoint(dir, name, directory); err != nil {
			return -1, fmt.Errorf("make the mount point %s: %w", name, err)
		}
		fd, err = unix.Openat2(dir, name, how)
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOTDIR):
		return -1, fmt.Errorf("%w: %s", ErrBusy, name)
	default:
		return -1, fmt.Errorf("open the mount point %s: %w", name, err)
	}
	if directory {
		return fd, nil
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, errors.Join(fmt.Errorf("%w: %s", ErrBusy, name), unix.Close(fd))
	}
	return fd, nil
}

func makePoint(dir int, name string, directory bool) error {
	if directory {
		return unix.Mkdirat(dir, name, 0o755)
	}
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
