package hostmount

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Supported tells why Attach cannot work in this process, or nil.
func Supported() error {
	fault := func(what string, err error) error {
		return fmt.Errorf("%w: %s: %w", sandbox.ErrUnsupported, what, err)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: attaching host files to a running sandbox needs root", sandbox.ErrUnsupported)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fault("cloning a mount needs CAP_SYS_ADMIN and Linux 5.2", err)
	}
	defer func() { _ = unix.Close(tree) }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fault("restricting a mount needs Linux 5.12", err)
	}
	dir, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return fault("walking without symbolic links needs Linux 5.6", err)
	}
	return unix.Close(dir)
}

// Attach makes req.Source appear at req.Target inside the sandbox. After an
// error nothing is attached.
func Attach(ctx context.Context, req Request) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	root, names, err := split(req.Target)
	if err != nil {
		return Result{}, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(req.Source.Fd()), &stat); err != nil {
		return Result{}, fmt.Errorf("stat source: %w", err)
	}
	kind := stat.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return Result{}, errors.New("only a regular file or a directory can be exposed")
	}
	tree, result, err := cloneTree(req, stat)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = unix.Close(tree) }()
	namespace, err := foreignNamespace(req.PID)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = namespace.Close() }()
	err = abroad.visit(namespace, func() error {
		return place(tree, req.Root, root, names, kind == unix.S_IFDIR)
	})
	return result, err
}

// cloneTree makes a detached copy of the mount that holds the source, with
// the source as its root, and restricts it before anyone can see it.
func cloneTree(req Request, stat unix.Stat_t) (int, Result, error) {
	clone := func() (int, error) {
		tree, err := unix.OpenTree(int(req.Source.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return -1, fmt.Errorf("clone the source's mount: %w", err)
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
		if req.Mode != sandbox.ReadWrite {
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return -1, errors.Join(fmt.Errorf("restrict the mount: %w", err), unix.Close(tree))
		}
		return tree, nil
	}
	tree, err := clone()
	if err != nil {
		return -1, Result{}, err
	}
	mapErr := mapOwner(tree, stat, req.UID, req.GID)
	if mapErr == nil {
		return tree, Result{Mapped: true}, nil
	}
	// The file system (or kernel) cannot map ids; the plain mount is told as such.
	return tree, Result{Reason: mapErr.Error()}, nil
}

// mapOwner swaps the source's owner with the sandbox's user on the mount.
func mapOwner(tree int, stat unix.Stat_t, uid, gid int) error {
	if int(stat.Uid) == uid && int(stat.Gid) == gid {
		return nil
	}
	namespace, err := userNamespace(int(stat.Uid), uid, int(stat.Gid), gid)
	if err != nil {
		return err
	}
	defer func() { _ = namespace.Close() }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("map owners on this file system: %w", err)
	}
	return nil
}

// foreignNamespace opens the mount namespace of pid and refuses our own, which
// a wrong or reused process number would give.
func foreignNamespace(pid int) (*os.File, error) {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's mount namespace: %w", err)
	}
	theirs, err := namespace.Stat()
	if err == nil {
		var own os.FileInfo
		if own, err = os.Stat("/proc/thread-self/ns/mnt"); err == nil && os.SameFile(own, theirs) {
			err = errors.New("it is the host's own")
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the sandbox's mount namespace: %w", err), namespace.Close())
	}
	return namespace, nil
}
