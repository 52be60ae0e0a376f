package environment

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// workspace makes a temporary directory that done removes, and sweeps those of
// builds that died.
func (s *Store) workspace(prefix string) (dir string, done func(), err error) {
	if err := os.MkdirAll(s.temp(), 0o700); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(s.temp(), prefix); err != nil {
		return "", nil, err
	}
	alive, err := lockFile(filepath.Join(dir, "alive.lock"))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.sweepWorkspaces(dir)
	return dir, func() {
		if err := errors.Join(os.RemoveAll(dir), alive.Close()); err != nil {
			s.log.Warn("a build's temporary directory cannot be removed", "directory", dir, "error", err)
		}
	}, nil
}

// sweepWorkspaces removes what dead builds left. A directory without a lock
// file is only swept after a while: its build may be starting just now.
func (s *Store) sweepWorkspaces(own string) {
	entries, err := os.ReadDir(s.temp())
	if err != nil {
		s.log.Warn("temporary directories cannot be listed", "error", err)
		return
	}
	for _, entry := range entries {
		dir := filepath.Join(s.temp(), entry.Name())
		info, err := entry.Info()
		if err != nil || dir == own || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := lockFile(filepath.Join(dir, "alive.lock"))
		if err != nil {
			continue // a build works in it
		}
		if err := errors.Join(os.RemoveAll(dir), lock.Close()); err != nil {
			s.log.Warn("a dead build's temporary directory cannot be removed", "directory", dir, "error", err)
		}
	}
}

func copyFile(from, to string, mode fs.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // only read
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
