package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// finish strips and describes the tree, and moves it to its place in one step.
func (b *build) finish(ctx context.Context, e Environment, lock []byte) (Environment, error) {
	b.report.say(phaseFinish, "stripping and measuring the tree")
	var err error
	if e.Packages, err = b.packages(); err != nil {
		return Environment{}, err
	}
	e.Created = time.Now().UTC().Truncate(time.Second)
	if err := b.writeMarker(e); err != nil {
		return Environment{}, err
	}
	if e.Size, err = strip(ctx, b.room.root, true); err != nil {
		return Environment{}, err
	}
	version := filepath.Dir(b.room.root)
	described, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return Environment{}, err
	}
	for name, content := range map[string][]byte{
		"environment.json": append(described, '\n'), "requirements.lock": lock, "pyproject.toml": b.source.text, "in-use.lock": nil,
	} {
		if err := os.WriteFile(filepath.Join(version, name), content, 0o644); err != nil {
			return Environment{}, err
		}
	}
	if err := b.place(ctx, version, e.ID[:12]); err != nil {
		return Environment{}, err
	}
	if e, err = b.store.read(e.Name, e.ID[:12]); err != nil {
		return Environment{}, err
	}
	b.store.log.InfoContext(ctx, "an environment was built", "environment", e.Name, "id", e.ID[:12], "base", e.Base, "bytes", e.Size, "seconds", time.Since(b.started).Seconds())
	return e, b.store.putInForce(ctx, e)
}

// place moves the finished version to its name. A damaged one may be in the way.
func (b *build) place(_ context.Context, version, id string) error {
	home := b.store.home(b.request.Name)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	target := filepath.Join(home, id)
	if _, err := os.Lstat(target); err == nil {
		if err := b.store.discard(target); err != nil {
			return err
		}
	}
	return os.Rename(version, target)
}

// putInForce makes e the version that Find returns, and sweeps older ones.
func (s *Store) putInForce(ctx context.Context, e Environment) error {
	current := filepath.Join(s.home(e.Name), "current")
	next := current + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(e.ID[:12], next); err != nil {
		return err
	}
	if err := os.Rename(next, current); err != nil {
		return err
	}
	return s.sweepVersions(ctx, e.Name, e.ID[:12])
}

// packages lists what is installed, by the metadata that uv wrote.
func (b *build) packages() ([]Package, error) {
	root, err := os.OpenRoot(b.room.root)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only read
	entries, err := fs.ReadDir(root.FS(), b.site[1:])
	if err != nil {
		return nil, fmt.Errorf("list the Python packages: %w", err)
	}
	var found []Package
	for _, entry := range entries {
		if match := metadataPattern.FindStringSubmatch(entry.Name()); match != nil {
			found = append(found, Package{Name: canonicalName(match[1]), Version: match[2]})
		}
	}
	slices.SortFunc(found, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

var metadataPattern = regexp.MustCompile(`^(.+)-([^-]+)\.dist-info$`)

// writeMarker writes what code inside can ask: which environment this is.
func (b *build) writeMarker(e Environment) error {
	marker, err := json.MarshalIndent(map[string]any{
		"name": e.Name, "id": e.ID, "python": e.Python, "python_version": e.Version, "packages": e.Packages,
	}, "", "  ")
	if err != nil {
		return err
	}
	return b.writeFile(markerPath, append(marker, '\n'))
}

// writeFile writes a file inside the tree; no symlink leads it outside.
func (b *build) writeFile(name string, content []byte) error {
	root, err := os.OpenRoot(b.room.root)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a directory descriptor: nothing is lost
	if err := root.MkdirAll(filepath.Dir(name)[1:], 0o755); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := root.Remove(name[1:]); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := root.WriteFile(name[1:], content, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
