package environment

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// Bounds of an archive that comes from outside.
const (
	maxArchiveBytes   = 16 << 30
	maxArchiveEntries = 1 << 20
)

// archiveTime is the modification time of everything in an archive, so that
// the same tree always gives the same bytes. Bytecode is unaffected: it is
// compiled to be valid whatever its source's time.
func archiveTime() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// writeTree writes the tree at dir as a tar stream: sorted, owned by root,
// without times, device nodes and extended attributes.
func writeTree(ctx context.Context, dir string, w io.Writer) error {
	t := treeWriter{dir: dir, tar: tar.NewWriter(w), links: make(map[uint64]string)}
	if err := t.walk(ctx); err != nil {
		return err
	}
	if err := t.tar.Close(); err != nil {
		return fmt.Errorf("archive %s: %w", dir, err)
	}
	return nil
}

type treeWriter struct {
	dir    string
	prefix string // of all names in the archive
	tar    *tar.Writer
	links  map[uint64]string // inode of a file with several names: the first name
}

// walk adds everything below dir.
func (t *treeWriter) walk(ctx context.Context) error {
	err := filepath.WalkDir(t.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		return t.add(name, entry)
	})
	if err != nil {
		return fmt.Errorf("archive %s: %w", t.dir, err)
	}
	return nil
}

func (t *treeWriter) add(name string, entry fs.DirEntry) error {
	relative, err := filepath.Rel(t.dir, name)
	if err != nil || relative == "." {
		return err
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: path.Join(t.prefix, filepath.ToSlash(relative)), Mode: tarMode(info.Mode()), ModTime: archiveTime(), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		header.Typeflag = tar.TypeDir
		header.Name += "/"
	case info.Mode()&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = os.Readlink(name); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		return t.addFile(name, header, info)
	default:
		return nil // sockets, pipes and devices have no place in an environment
	}
	return t.tar.WriteHeader(header)
}

func (t *treeWriter) addFile(name string, header *tar.Header, info fs.FileInfo) error {
	if number, ok := linked(info); ok {
		if first, known := t.links[number]; known {
			header.Typeflag, header.Linkname = tar.TypeLink, first
			return t.tar.WriteHeader(header)
		}
		t.links[number] = header.Name
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := t.tar.WriteHeader(header); err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(t.tar, file)
	return errors.Join(err, file.Close())
}

// tarMode keeps the sticky bit of directories like /tmp; setuid and setgid go.
func tarMode(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// readTree unpacks a tar stream into the empty directory dir. No entry can
// reach outside dir; owners, times, device nodes and setuid bits are dropped.
func readTree(ctx context.Context, r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer root.Close() //nolint:errcheck // a directory descriptor: nothing is lost
	reader := &treeReader{root: root, modes: make(map[string]fs.FileMode)}
	source := tar.NewReader(r)
	for entries := 0; ; entries++ {
		if ctx.Err() != nil {
			return fmt.Errorf("unpack: %w", context.Cause(ctx))
		}
		header, err := source.Next()
		if errors.Is(err, io.EOF) {
			return reader.finish()
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		if reader.bytes += header.Size; entries >= maxArchiveEntries || reader.bytes > maxArchiveBytes {
			return fmt.Errorf("unpack: the base has more than %d entries or %d bytes", maxArchiveEntries, int64(maxArchiveBytes))
		}
		if err := reader.add(header, source); err != nil {
			return fmt.Errorf("unpack %q: %w", header.Name, err)
		}
	}
}

type treeReader struct {
	root  *os.Root
	bytes int64
	modes map[string]fs.FileMode // of directories; set last, so that none locks us out
}

func (t *treeReader) add(header *tar.Header, content io.Reader) error {
	name := path.Clean("/" + header.Name)[1:]
	if name == "" {
		return nil
	}
	if dir := path.Dir(name); dir != "." {
		if err := t.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	mode := fs.FileMode(header.Mode & 0o777)
	switch header.Typeflag {
	case tar.TypeDir:
		if header.Mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		t.modes[name] = mode
		return t.root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		return t.addFile(name, mode, content)
	case tar.TypeSymlink:
		return t.replace(name, func() error { return t.root.Symlink(header.Linkname, name) })
	case tar.TypeLink:
		target := path.Clean("/" + header.Linkname)[1:]
		return t.replace(name, func() error { return t.root.Link(target, name) })
	default:
		return nil // devices, pipes and the like
	}
}

func (t *treeReader) addFile(name string, mode fs.FileMode, content io.Reader) error {
	return t.replace(name, func() error {
		file, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Chmod(mode), file.Close())
	})
}

// replace makes an entry anew when an earlier one has its name.
func (t *treeReader) replace(name string, create func() error) error {
	err := create()
	if errors.Is(err, fs.ErrExist) {
		if err := t.root.Remove(name); err != nil {
			return err
		}
		delete(t.modes, name)
		return create()
	}
	return err
}

func (t *treeReader) finish() error {
	for name, mode := range t.modes {
		if err := t.root.Chmod(name, mode|0o700); err != nil {
			return fmt.Errorf("unpack %q: %w", name, err)
		}
	}
	return nil
}
