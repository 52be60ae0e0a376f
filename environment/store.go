package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options of a Store.
type Options struct {
	// DataDir holds environments and caches; see DefaultDataDir.
	DataDir string
	// Shared, where set, is the data directory of the machine: what DataDir has
	// no environment for is found there. It is only read.
	Shared string
	// Logger is required.
	Logger *slog.Logger
	// Docker is the daemon that environments are loaded into; nil without one.
	Docker DaemonImages
	// Environ is the process's environment, KEY=VALUE: the search path, proxy,
	// certificate and package index settings are taken from it.
	Environ []string
}

// A Store finds, builds and removes the environments of one data directory.
// Several processes may use the same directory at once. Its methods may be
// called from several goroutines.
type Store struct {
	dir     string
	shared  string // another store's dir, or ""
	log     *slog.Logger
	docker  DaemonImages
	environ environ
}

// MachineDataDir is root's data directory, whose environments all users may read.
const MachineDataDir = "/var/lib/biocage"

// DefaultDataDir is where environments live unless the configuration says
// otherwise: a place that every user id can reach for root, because sandboxes
// run under ids of their own; else the user's data directory.
func DefaultDataDir(euid int, getenv func(string) string) string {
	if euid == 0 {
		return MachineDataDir
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "biocage")
	}
	return filepath.Join(getenv("HOME"), ".local", "share", "biocage")
}

// Open prepares a store. It creates the data directory and touches nothing in it.
func Open(opts Options) (*Store, error) {
	if !filepath.IsAbs(opts.DataDir) {
		return nil, fmt.Errorf("open the environments: the data directory %q is not an absolute path", opts.DataDir)
	}
	if opts.Logger == nil {
		return nil, errors.New("open the environments: no logger")
	}
	if err := os.MkdirAll(filepath.Join(opts.DataDir, "environments"), 0o755); err != nil {
		return nil, fmt.Errorf("open the environments: %w", err)
	}
	return &Store{dir: opts.DataDir, shared: opts.Shared, log: opts.Logger, docker: opts.Docker, environ: opts.Environ}, nil
}

// Find returns the environment of that name, or ErrNotBuilt. One of this
// store's own comes before one of the machine's.
func (s *Store) Find(name string) (Environment, error) {
	found, err := s.own(name)
	if s.shared == "" || !errors.Is(err, ErrNotBuilt) {
		return found, err
	}
	shared, sharedErr := s.machine().own(name)
	if errors.Is(sharedErr, ErrNotBuilt) {
		return found, err
	}
	return shared, sharedErr
}

// machine is the machine's store, to be read.
func (s *Store) machine() *Store { return &Store{dir: s.shared, log: s.log} }

// own finds an environment of this store.
func (s *Store) own(name string) (Environment, error) {
	if err := checkName(name); err != nil {
		return Environment{}, fmt.Errorf("environment %q: %w", name, err)
	}
	current, err := os.Readlink(filepath.Join(s.home(name), "current"))
	if errors.Is(err, fs.ErrNotExist) {
		return Environment{}, fmt.Errorf("environment %q: %w; build it with: %s", name, ErrNotBuilt, BuildCommand(name))
	}
	if err != nil {
		return Environment{}, fmt.Errorf("find environment %q: %w", name, err)
	}
	return s.read(name, filepath.Base(current))
}

// List returns all environments by name. What cannot be read is left out and logged.
func (s *Store) List() ([]Environment, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	if s.shared != "" {
		more, err := s.machine().names()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		names = slices.Concat(names, more)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	var found []Environment
	for _, name := range names {
		environment, err := s.Find(name)
		if errors.Is(err, ErrNotBuilt) {
			continue
		}
		if err != nil {
			s.log.Warn("an environment cannot be read", "environment", name, "error", err)
			continue
		}
		found = append(found, environment)
	}
	return found, nil
}

// names lists what may be environments of this store.
func (s *Store) names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "environments"))
	if err != nil {
		return nil, fmt.Errorf("list the environments: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && checkName(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Hold keeps an environment's tree on disk until the result is closed: no
// build and no Remove, of whatever process, deletes it meanwhile.
func (s *Store) Hold(e Environment) (io.Closer, error) {
	name := filepath.Join(filepath.Dir(e.Dir), "in-use.lock")
	if _, err := os.Stat(name); err != nil {
		return nil, fmt.Errorf("hold environment %q: %w; build it with: %s", e.Name, ErrNotBuilt, BuildCommand(e.Name))
	}
	lock, err := shareFile(name)
	if errors.Is(err, errHeld) || err == nil && lock.stale(name) {
		if lock != nil {
			err = lock.Close()
		}
		return nil, errors.Join(fmt.Errorf("hold environment %q: it is being removed: %w", e.Name, ErrNotBuilt), err)
	}
	if err != nil {
		return nil, fmt.Errorf("hold environment %q: %w", e.Name, err)
	}
	return lock, nil
}

// Remove deletes an environment, its older versions and its images. It refuses
// with ErrInUse while any process holds a version of it.
func (s *Store) Remove(ctx context.Context, name string) error {
	if _, err := s.own(name); err != nil {
		if _, found := s.Find(name); found == nil {
			return fmt.Errorf("remove environment %q: %w, in %s; remove it with sudo", name, ErrShared, s.shared)
		}
		return err
	}
	lock, err := s.lockName(name)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with its descriptor
	versions, err := s.versions(name)
	if err != nil {
		return err
	}
	held, err := s.holdAll(name, versions)
	defer func() {
		for _, lock := range held {
			lock.Close() //nolint:errcheck // as above
		}
	}()
	if err != nil {
		return err
	}
	if err := s.removeImages(ctx, name, append(versions, "latest")); err != nil {
		return err
	}
	return s.discard(s.home(name))
}

// holdAll takes every version exclusively, or none.
func (s *Store) holdAll(name string, versions []string) ([]*fileLock, error) {
	var held []*fileLock
	for _, version := range versions {
		lock, err := lockFile(filepath.Join(s.home(name), version, "in-use.lock"))
		if errors.Is(err, errHeld) {
			return held, fmt.Errorf("remove environment %q: %w: stop the servers that use it first", name, ErrInUse)
		}
		if err != nil {
			return held, fmt.Errorf("remove environment %q: %w", name, err)
		}
		held = append(held, lock)
	}
	return held, nil
}

// sweepVersions removes the versions of name that are neither keep nor held.
func (s *Store) sweepVersions(ctx context.Context, name, keep string) error {
	versions, err := s.versions(name)
	if err != nil {
		return err
	}
	for _, version := range versions {
		if version == keep {
			continue
		}
		lock, err := lockFile(filepath.Join(s.home(name), version, "in-use.lock"))
		if errors.Is(err, errHeld) {
			continue // a server still runs on it; the next build tries again
		}
		if err != nil {
			return err
		}
		err = errors.Join(s.removeImages(ctx, name, []string{version}), s.discard(filepath.Join(s.home(name), version)), lock.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// versions lists the ids (shortened) of which name has a tree.
func (s *Store) versions(name string) ([]string, error) {
	entries, err := os.ReadDir(s.home(name))
	if err != nil {
		return nil, fmt.Errorf("list the versions of environment %q: %w", name, err)
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() {
			found = append(found, entry.Name())
		}
	}
	slices.Sort(found)
	return found, nil
}

// discard moves a directory out of the way in one step, then deletes it.
func (s *Store) discard(dir string) error {
	if err := os.MkdirAll(s.temp(), 0o700); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	grave, err := os.MkdirTemp(s.temp(), "discard-")
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if err := os.Rename(dir, filepath.Join(grave, "tree")); err != nil {
		return errors.Join(fmt.Errorf("remove %s: %w", dir, err), os.Remove(grave))
	}
	if err := os.RemoveAll(grave); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// read loads the description of one version.
func (s *Store) read(name, version string) (Environment, error) {
	dir := filepath.Join(s.home(name), version)
	data, err := os.ReadFile(filepath.Join(dir, "environment.json"))
	if err != nil {
		return Environment{}, fmt.Errorf("environment %q: %w; build it again with: %s", name, err, BuildCommand(name))
	}
	var e Environment
	if err := json.Unmarshal(data, &e); err != nil {
		return Environment{}, fmt.Errorf("environment %q: %s: %w; build it again with: %s", name, filepath.Join(dir, "environment.json"), err, BuildCommand(name))
	}
	e.Dir = filepath.Join(dir, "rootfs")
	if info, err := os.Stat(e.Dir); err != nil || !info.IsDir() || len(e.ID) < 12 || e.Name != name {
		return Environment{}, fmt.Errorf("environment %q: %s is damaged; build it again with: %s", name, dir, BuildCommand(name))
	}
	return e, nil
}

// lockName keeps other builds and removals of name away.
func (s *Store) lockName(name string) (*fileLock, error) {
	lock, err := lockFile(filepath.Join(s.dir, "environments", "."+name+".lock"))
	if errors.Is(err, errHeld) {
		return nil, fmt.Errorf("environment %q: %w: wait for it to end", name, ErrBusy)
	}
	return lock, err
}

func (s *Store) home(name string) string { return filepath.Join(s.dir, "environments", name) }
func (s *Store) temp() string            { return filepath.Join(s.dir, "tmp") }
func (s *Store) cache(parts ...string) string {
	return filepath.Join(append([]string{s.dir, "cache"}, parts...)...)
}

// BuildCommand is what builds an environment that is missing.
func BuildCommand(name string) string {
	if name == DefaultName {
		return "biocage env build"
	}
	return "biocage env build --from pyproject.toml --name " + name
}

// environ is a process environment, KEY=VALUE.
type environ []string

// get is the value of a variable; the last one wins, as for exec.
func (e environ) get(key string) string {
	for _, entry := range slices.Backward(e) {
		if value, found := strings.CutPrefix(entry, key+"="); found {
			return value
		}
	}
	return ""
}
