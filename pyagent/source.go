package pyagent

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// source is the agent, byte for byte.
//
//go:embed biocage_agent_main.py biocage_agent/*.py
var source embed.FS

// How the names of folders begin: of a source, and of one that is not whole.
const (
	prefix    = "agent-"
	beginning = ".new-"
)

// Command is what starts the supervisor in a sandbox that shows the source at
// agentDir; an engine appends the channel.
func Command(python, agentDir string) []string {
	return []string{python, "-I", agentDir + "/biocage_agent_main.py"}
}

// unusedFor is how old a source is before it may be removed: whoever installed
// it may not have come to hold it yet.
const unusedFor = 24 * time.Hour

// An Installed source stays where it is until Close.
type Installed struct {
	Dir    string
	folder *os.File
}

// Close lets go of the source, which a later Clean may then remove.
func (i *Installed) Close() error { return i.folder.Close() }

// Install writes the agent's source below dir, in a folder named after its
// content, and holds that folder. One that is there already is complete,
// because it appears by a rename.
func Install(dir string) (*Installed, error) {
	id, err := sourceID()
	if err != nil {
		return nil, err
	}
	target := filepath.Join(dir, id)
	for range 3 { // another process may be removing it, which is done in no time
		if !isThere(target) {
			if err := place(dir, target); err != nil {
				return nil, fmt.Errorf("install agent: %w", err)
			}
		}
		held, err := hold(target)
		if err != nil {
			return nil, fmt.Errorf("install agent: %w", err)
		}
		if held != nil {
			return held, nil
		}
	}
	return nil, fmt.Errorf("install agent: %s is removed again and again; see which program does so", target)
}

// place writes the source, first beside its place.
func place(dir, target string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(dir, beginning)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // after the rename there is nothing left to remove
	if err := os.CopyFS(filepath.Join(temp, "agent"), source); err != nil {
		return err
	}
	if err := makeReadable(filepath.Join(temp, "agent")); err != nil {
		return err
	}
	err = os.Rename(filepath.Join(temp, "agent"), target)
	if err != nil && !isThere(target) { // another process may have been first
		return err
	}
	return nil
}

// hold locks a folder and marks it as used now; nil when it is there no more.
func hold(target string) (*Installed, error) {
	folder, err := os.Open(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, _ = lock(folder, true) // where nobody can lock, nobody removes anything
	if !isAt(folder, target) {
		return nil, folder.Close()
	}
	now := time.Now()
	_ = os.Chtimes(target, now, now) // it may be somebody else's; the lock counts, and the time is only its crutch
	return &Installed{Dir: target, folder: folder}, nil
}

// isAt tells whether an open folder still has its name.
func isAt(folder *os.File, name string) bool {
	ours, err := folder.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Stat(name)
	return err == nil && os.SameFile(ours, theirs)
}

// Clean removes the sources of other versions that nobody holds and nobody
// used for long, and what ended installations left.
func Clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clean agents: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		info, err := entry.Info()
		isOurs := strings.HasPrefix(entry.Name(), beginning) || strings.HasPrefix(entry.Name(), prefix)
		if err != nil || !entry.IsDir() || !isOurs || time.Since(info.ModTime()) < unusedFor {
			continue // what is gone already is as good
		}
		if err := remove(dir, entry.Name()); err != nil {
			errs = append(errs, fmt.Errorf("clean agents: %w", err))
		}
	}
	return errors.Join(errs...)
}

// remove takes a folder away that nobody holds, first out of its name.
func remove(dir, name string) error {
	folder, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer folder.Close() //nolint:errcheck // opened for its lock
	if got, err := lock(folder, false); !got {
		return err
	}
	if !isAt(folder, filepath.Join(dir, name)) {
		return nil
	}
	gone, err := os.MkdirTemp(dir, beginning)
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(filepath.Join(dir, name), filepath.Join(gone, name)), os.RemoveAll(gone))
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// makeReadable lets the sandbox's user read the source whatever our umask.
func makeReadable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755)
		default:
			return os.Chmod(path, 0o644)
		}
	})
}

// sourceID names the agent's source by its content.
func sourceID() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := source.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read agent source: %w", err)
	}
	return prefix + strings.ToLower(hex.EncodeToString(h.Sum(nil)[:8])), nil
}
