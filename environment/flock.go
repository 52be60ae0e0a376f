package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// errHeld: somebody else holds the lock.
var errHeld = errors.New("held by another process")

// A fileLock is an advisory lock on a file. It ends with its process.
type fileLock struct{ file *os.File }

// lockFile takes a lock alone, without waiting; errHeld when it cannot be had.
func lockFile(name string) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return locked(file, false)
}

// shareFile takes a lock of a file that is there together with others, without
// waiting. Reading it suffices, so that it may be somebody else's.
func shareFile(name string) (*fileLock, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return locked(file, true)
}

// locked locks the open file, or closes it.
func locked(file *os.File, shared bool) (*fileLock, error) {
	if err := tryLock(file, shared); err != nil {
		closing := file.Close()
		if errors.Is(err, errHeld) {
			return nil, errors.Join(errHeld, closing)
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), closing)
	}
	return &fileLock{file: file}, nil
}

// waitForLock takes a lock exclusively, waiting until ctx ends.
func waitForLock(ctx context.Context, name string) (*fileLock, error) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		lock, err := lockFile(name)
		if !errors.Is(err, errHeld) {
			return lock, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", name, context.Cause(ctx))
		}
	}
}

// Close gives the lock back.
func (l *fileLock) Close() error { return l.file.Close() }

// stale tells whether the locked file is no longer the one of that name.
func (l *fileLock) stale(name string) bool {
	ours, err := l.file.Stat()
	if err != nil {
		return true
	}
	theirs, err := os.Stat(name)
	return err != nil || !os.SameFile(ours, theirs)
}
