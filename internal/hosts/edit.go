package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxFile bounds a host's file; Claude Code keeps much more in its than servers.
	maxFile = 32 << 20
	// maxBackups is how many backups of one file are kept.
	maxBackups = 5
)

// A Target is a file that is to be changed.
type Target struct {
	Path   string
	Within string    // where set, links must not lead out of this directory
	DryRun bool      // nothing is written
	Now    time.Time // names the backup
}

// A Result is what became, or would become, of the file.
type Result struct {
	Path    string // where links lead
	Backup  string // empty where there was no file, or nothing was written
	Changed bool
}

// Edit replaces a file's content by what change makes of it. The new file takes
// the place of the old one at once, with its mode and owner; the old one stays
// beside it as a backup. A file that does not exist is empty and is made, with
// its folders. A file that changes meanwhile is left alone.
func Edit(t Target, change func(old []byte) ([]byte, error)) (Result, error) {
	path, err := t.resolve()
	if err != nil {
		return Result{}, err
	}
	res := Result{Path: path}
	old, info, err := readRegular(path)
	if err != nil {
		return Result{}, err
	}
	made, err := change(slices.Clone(old))
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", path, err)
	}
	if res.Changed = !bytes.Equal(old, made); !res.Changed || t.DryRun {
		return res, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Result{}, fmt.Errorf("the folder of the configuration cannot be made: %w", err)
	}
	if info != nil {
		if res.Backup, err = backup(path, old, info, t.Now); err != nil {
			return Result{}, fmt.Errorf("no backup can be made, so nothing was changed: %w", err)
		}
	}
	if err := replace(path, old, made, info); err != nil {
		return Result{}, err
	}
	return res, nil
}

// resolve follows links, so that they stay and what they name is changed.
func (t Target) resolve() (string, error) {
	path, err := filepath.Abs(t.Path)
	if err != nil {
		return "", err
	}
	resolved, err := resolveDeep(path)
	if err != nil {
		return "", fmt.Errorf("%s cannot be followed to a file: %w", path, err)
	}
	if t.Within == "" {
		return resolved, nil
	}
	within, err := filepath.EvalSymlinks(t.Within)
	if err != nil {
		return "", err
	}
	if below, err := filepath.Rel(within, resolved); err != nil || !filepath.IsLocal(below) {
		return "", fault{ErrConflict, fmt.Sprintf("%s leads out of the project, to %s; replace the link by a file", path, resolved)}
	}
	return resolved, nil
}

// resolveDeep follows the links of what exists of a path.
func resolveDeep(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return resolved, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fault{ErrConflict, "it is a link to nothing; remove it, or make what it names"}
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path, nil
	}
	parent, err = resolveDeep(parent)
	return filepath.Join(parent, filepath.Base(path)), err
}

// readRegular reads a file. One that does not exist has no info.
func readRegular(path string) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular():
		return nil, nil, fault{ErrMalformed, path + " is no regular file; move it away"}
	case info.Size() > maxFile:
		return nil, nil, fault{ErrMalformed, fmt.Sprintf("%s is larger than %d MiB; use --print and add the entry by hand", path, maxFile>>20)}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	return data, info, errors.Join(err, file.Close())
}

// backupMark is between a file's name and the time in a backup's name.
const backupMark = ".biocage-"

// backup keeps the old content beside the file, and the latest few backups.
func backup(path string, old []byte, info fs.FileInfo, now time.Time) (string, error) {
	name := path + backupMark + now.UTC().Format("20060102-150405.000000")
	if err := write(name, old, info); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	var all []string
	for _, e := range entries { // sorted, so the oldest comes first
		if strings.HasPrefix(e.Name(), filepath.Base(path)+backupMark) && e.Type().IsRegular() {
			all = append(all, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	for len(all) > maxBackups {
		if err := os.Remove(all[0]); err != nil {
			return "", err
		}
		all = all[1:]
	}
	return name, nil
}

// replace puts the new content in the file's place.
func replace(path string, old, made []byte, info fs.FileInfo) error {
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(path), os.Getpid()))
	if err := write(temp, made, info); err != nil {
		return fmt.Errorf("the configuration cannot be written: %w", err)
	}
	now, _, err := readRegular(path)
	if err == nil && !bytes.Equal(now, old) {
		err = fault{ErrConflict, path + " was changed by another program meanwhile; end the host, then try again"}
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// write makes a file with the mode and owner of another one, or for the user
// alone. What is there of that name is not overwritten.
func write(path string, data []byte, like fs.FileInfo) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil && like != nil {
		if err = sameOwner(file, like); err == nil {
			err = file.Chmod(like.Mode().Perm())
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
