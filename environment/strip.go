package environment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// mountpoints are what engines mount on; all of them must exist, for a root
// file system is read-only once a sandbox runs.
func mountpoints() []string {
	return []string{"/work", "/tmp", "/data", "/app", "/mnt", "/opt/biocage", "/run/biocage", "/proc", "/dev", "/sys"}
}

// emptied are directories whose content is of no use in a sandbox.
func emptied() []string {
	return []string{
		"/boot", "/build", "/dev", "/home", "/media", "/proc", "/root", "/run", "/srv", "/sys", "/tmp",
		"/var/backups", "/var/cache", "/var/lib/apt/lists", "/var/log", "/var/mail", "/var/spool", "/var/tmp",
		"/usr/share/bash-completion", "/usr/share/doc", "/usr/share/doc-base", "/usr/share/info",
		"/usr/share/lintian", "/usr/share/locale", "/usr/share/man", "/usr/share/pixmaps",
	}
}

// sealed are what only installing more packages needs: gone from a finished
// environment, kept in a cached base.
func sealed() []string {
	return []string{"/etc/apt", "/var/lib/apt", "/var/lib/dpkg/info", "/usr/share/debconf", "/usr/share/perl5/Debconf", "/usr/share/python3"}
}

// keepName tells of files that stay although their directory is emptied:
// licences must travel with what they license.
func keepName(name string) bool {
	return strings.HasPrefix(name, "usr/share/doc/") && path.Base(name) == "copyright"
}

// keepLocale keeps C.UTF-8, which is the only locale that a sandbox uses.
func keepLocale(name string) bool { return strings.HasPrefix(path.Base(name), "C.") }

// strip makes the tree at dir fit for sandboxes: content of no use is gone,
// nothing is privileged, everything is readable for every user id. final also
// removes what installing more packages would need. It returns the tree's size.
//
// Names are resolved beneath the tree's descriptor: a symlink of a base image
// must not lead to the host's own directories.
func strip(ctx context.Context, dir string, final bool) (int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("strip: %w", err)
	}
	defer root.Close() //nolint:errcheck // a directory descriptor: nothing is lost
	drop := emptied()
	if final {
		drop = append(drop, sealed()...)
	}
	for _, name := range drop {
		if err := empty(root, name[1:], keepName); err != nil {
			return 0, fmt.Errorf("strip %s: %w", name, err)
		}
	}
	if err := empty(root, "usr/lib/locale", keepLocale); err != nil {
		return 0, fmt.Errorf("strip the locales: %w", err)
	}
	for _, name := range append(mountpoints(), "/var/tmp", "/root") {
		if err := root.MkdirAll(name[1:], 0o755); err != nil {
			return 0, fmt.Errorf("make the mount point %s: %w", name, err)
		}
	}
	return normalise(ctx, dir)
}

// empty removes what is in a directory of the tree, but neither the directory
// nor the files to keep.
func empty(root *os.Root, name string, keep func(string) bool) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil // a symlink such as /var/mail leads to what is emptied itself
	}
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := remove(root, path.Join(name, entry.Name()), entry.IsDir(), keep); err != nil {
			return err
		}
	}
	return nil
}

// remove removes an entry, but not the files to keep, nor their directories.
func remove(root *os.Root, name string, isDir bool, keep func(string) bool) error {
	if keep(name) {
		return nil
	}
	if isDir {
		if err := empty(root, name, keep); err != nil {
			return err
		}
	}
	err := root.Remove(name)
	if errors.Is(err, syscall.ENOTEMPTY) { // something in it stays
		return nil
	}
	return err
}

// normalise walks the whole tree and sets owners and modes.
func normalise(ctx context.Context, dir string) (int64, error) {
	var size int64
	privileged := os.Geteuid() == 0
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.IsDir() && !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
			return os.Remove(name) // devices, sockets, pipes; nobody else writes to the tree
		}
		size += info.Size()
		return settle(name, strings.TrimPrefix(name, dir), info, privileged)
	})
	if err != nil {
		return 0, fmt.Errorf("normalise the tree: %w", err)
	}
	return size, nil
}

// settle gives one entry to root, takes its capabilities and special bits, and
// lets everybody read it.
func settle(full, name string, info fs.FileInfo, privileged bool) error {
	if privileged { // else it is ours already, and files cannot have capabilities
		if err := os.Lchown(full, 0, 0); err != nil {
			return err
		}
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	if privileged && info.Mode().IsRegular() {
		if err := dropCapabilities(full); err != nil {
			return err
		}
	}
	return os.Chmod(full, settledMode(name, info.Mode()))
}

// settledMode is the mode that an entry of a finished tree has.
func settledMode(name string, mode fs.FileMode) fs.FileMode {
	perm := mode.Perm()&^0o022 | 0o444
	switch {
	case name == "/tmp" || name == "/var/tmp":
		return fs.ModeDir | fs.ModeSticky | 0o777
	case mode.IsDir():
		return fs.ModeDir | perm | 0o755
	case perm&0o111 != 0:
		perm |= 0o111
	}
	return perm
}
