package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// sharedMemory is memory-backed and visible to the daemon even where services
// get a private directory for temporary files.
const sharedMemory = "/dev/shm"

// privateDir is where this process keeps sockets and staged agents: in memory
// where there is such a place, so that the sandbox's list of mounts names no
// disk of the host.
func privateDir(base string, me owner) string {
	if base == "" {
		base = os.TempDir()
		if info, err := os.Stat(sharedMemory); err == nil && info.IsDir() && info.Mode()&os.ModeSticky != 0 {
			base = sharedMemory
		}
	}
	return filepath.Join(base, me.dirName())
}

// stagedAgent is a copy of the agent's source in the private directory, made
// once. Without it the source itself is mounted, which works as well.
func (e *Engine) stagedAgent(ctx context.Context, source string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if staged, ok := e.agents[source]; ok {
		return staged
	}
	staged, err := stage(e.private, e.instance+strconv.Itoa(len(e.agents)), source)
	if err != nil {
		e.opts.Log.WarnContext(ctx, "docker agent is mounted from its own directory, because it could not be copied", "error", err)
		return source
	}
	e.agents[source] = staged
	return staged
}

func stage(private, name, source string) (string, error) {
	if err := ownDirectory(private); err != nil {
		return "", err
	}
	staged := filepath.Join(private, "agent"+name)
	if err := os.CopyFS(staged, os.DirFS(source)); err != nil {
		return "", errors.Join(fmt.Errorf("copy agent: %w", err), os.RemoveAll(staged))
	}
	// The sandbox's user is none that the host knows.
	err := filepath.WalkDir(staged, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Chmod(path, 0o755) //nolint:gosec // the directory above is private
		}
		return os.Chmod(path, 0o644) //nolint:gosec // the directory above is private
	})
	if err != nil {
		return "", errors.Join(fmt.Errorf("copy agent: %w", err), os.RemoveAll(staged))
	}
	return staged, nil
}

// unstage removes the copies, and the private directory when no other engine
// of this process uses it.
func (e *Engine) unstage() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, staged := range e.agents {
		errs = append(errs, os.RemoveAll(staged))
	}
	if err := os.Remove(e.private); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
