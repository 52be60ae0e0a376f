package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// The ways to get a base system, in the order in which BaseAuto tries them.
const (
	BaseAuto        = "auto"
	BaseRegistry    = "registry"    // an image of a container registry
	BaseDocker      = "docker"      // an image that the local Docker daemon has
	BaseDebootstrap = "debootstrap" // Debian's packages; on Debian-like hosts, as root
)

// DefaultImage is the base image where the request names none.
const DefaultImage = "python:3.13-slim"

// maxBaseAge is how long a debootstrapped base is used again: after that its
// packages may lack fixes. Bases from images follow their image at once.
const maxBaseAge = 30 * 24 * time.Hour

// A base is a root file system to build on, kept in the cache as an archive.
type base struct {
	Kind    string    `json:"kind"`
	Ref     string    `json:"ref"`
	Digest  string    `json:"digest"` // changes whenever the content does
	Created time.Time `json:"created"`
	archive string
}

// String is for people: "debootstrap trixie".
func (b base) String() string { return b.Kind + " " + b.Ref }

// A baseWay is one way to get a base. digest tells what it would give, or why
// it does not work here; "" when only making it tells. fill makes the tree.
type baseWay struct {
	kind, ref string
	digest    func(ctx context.Context) (string, error)
	fill      func(ctx context.Context, dir string) error
	measure   func(dir string) (string, error) // the digest of a filled tree, when digest was ""
}

// base gets the base that a request asks for.
func (s *Store) base(ctx context.Context, request BuildRequest, report reporter) (base, error) {
	image := request.Image
	if image == "" {
		image = DefaultImage
	}
	ways := []baseWay{
		registryWay(image, report),
		s.dockerWay(image),
		s.debootstrapWay(request.Mirror, report),
	}
	var refusals []error
	for _, way := range ways {
		if request.Base != BaseAuto && request.Base != "" && request.Base != way.kind {
			continue
		}
		report.say(phaseBase, "trying "+way.kind+" "+way.ref)
		found, err := s.tryBase(ctx, s.withBytecode(way, report), request.Refresh, report)
		if err == nil {
			return found, nil
		}
		if ctx.Err() != nil {
			return base{}, err
		}
		refusals = append(refusals, fmt.Errorf("%s (%s): %w", way.kind, way.ref, err))
	}
	if len(refusals) == 0 {
		return base{}, fmt.Errorf("%w: %q is not a kind of base; use auto, registry, docker or debootstrap", ErrNoBase, request.Base)
	}
	return base{}, fmt.Errorf("%w: make one of these work:\n%w", ErrNoBase, errors.Join(refusals...))
}

// tryBase takes one way's base from the cache, or makes it.
func (s *Store) tryBase(ctx context.Context, way baseWay, refresh bool, report reporter) (base, error) {
	digest, err := way.digest(ctx)
	if err != nil {
		return base{}, err
	}
	name := s.cache("base", unsafeChars.ReplaceAllString(fmt.Sprintf("%s-%s-%s-%d", way.kind, way.ref, runtime.GOARCH, builderVersion), "_"))
	lock, err := waitForLock(ctx, name+".lock")
	if err != nil {
		return base{}, err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with its descriptor
	if cached, ok := readBase(name); ok && !refresh {
		fresh := digest == "" && time.Since(cached.Created) < maxBaseAge
		if fresh || digest != "" && digest == cached.Digest {
			report.say(phaseBase, "using the cached "+cached.String())
			return cached, nil
		}
	}
	made := base{Kind: way.kind, Ref: way.ref, Digest: digest, Created: time.Now().UTC(), archive: name + ".tar"}
	return made, s.makeBase(ctx, way, &made, name)
}

// makeBase fills a temporary tree, strips it and archives it into the cache.
func (s *Store) makeBase(ctx context.Context, way baseWay, made *base, name string) error {
	work, done, err := s.workspace("base-")
	if err != nil {
		return err
	}
	defer done()
	dir := filepath.Join(work, "rootfs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := way.fill(ctx, dir); err != nil {
		return err
	}
	if _, err := strip(ctx, dir, false); err != nil {
		return err
	}
	if made.Digest == "" {
		if made.Digest, err = way.measure(dir); err != nil {
			return err
		}
	}
	return writeBase(ctx, dir, *made, name)
}

// withBytecode makes a way compile the standard library of what it filled, once
// for all builds on that base.
func (s *Store) withBytecode(way baseWay, report reporter) baseWay {
	fill := way.fill
	way.fill = func(ctx context.Context, dir string) error {
		if err := fill(ctx, dir); err != nil {
			return err
		}
		report.say(phaseBase, "compiling Python's standard library")
		beside := filepath.Dir(dir)
		r := room{root: dir, support: beside, cache: beside}
		python, err := s.findPython(ctx, r)
		if err != nil {
			return err
		}
		return s.compileBytecode(ctx, r, python, python.Stdlib)
	}
	return way
}

// readBase reads the description of a cached base.
func readBase(name string) (base, bool) {
	data, err := os.ReadFile(name + ".json")
	if err != nil {
		return base{}, false
	}
	b := base{archive: name + ".tar"}
	if json.Unmarshal(data, &b) != nil || b.Digest == "" {
		return base{}, false // an unreadable cache entry is made again
	}
	_, err = os.Stat(b.archive)
	return b, err == nil
}

// writeBase archives a tree into the cache; the description comes last, so
// that a cache entry is whole or not there.
func writeBase(ctx context.Context, dir string, b base, name string) error {
	if err := os.Remove(name + ".json"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(name), "new-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // gone after the rename
	if err := errors.Join(writeTree(ctx, dir, file), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), b.archive); err != nil {
		return err
	}
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return os.WriteFile(name+".json", data, 0o644)
}

// unpack lays the base out in the empty directory dir.
func (b base) unpack(ctx context.Context, dir string) error {
	file, err := os.Open(b.archive)
	if err != nil {
		return fmt.Errorf("open the cached base: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	return readTree(ctx, file, dir)
}

var unsafeChars = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
