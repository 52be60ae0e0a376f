package environment

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// builderVersion is part of every id: raise it when the builder makes
// something else of the same inputs.
const builderVersion = 3

//go:embed default/pyproject.toml default/requirements.lock
var defaultFiles embed.FS

// BuildRequest says what to build.
type BuildRequest struct {
	Name        string // "" is DefaultName
	ProjectFile string // a pyproject.toml; "" is the one that ships with the program
	Base        string // BaseAuto (or ""), BaseRegistry, BaseDocker, BaseDebootstrap
	Image       string // the base image; "" is DefaultImage
	Mirror      string // where debootstrap gets packages from; "" is its own default
	Refresh     bool   // make the base anew even when a cached one would do
	// Progress, when set, is called while Build runs, from one goroutine at a time.
	Progress func(Progress)
}

// Build builds an environment, or returns the one that is there when nothing
// it depends on has changed. A build that fails or is cancelled leaves nothing
// but what it downloaded, and the environment of that name as it was.
func (s *Store) Build(ctx context.Context, request BuildRequest) (Environment, error) {
	if request.Name == "" {
		request.Name = DefaultName
	}
	if err := checkName(request.Name); err != nil {
		return Environment{}, fmt.Errorf("build environment %q: %w", request.Name, err)
	}
	source, err := readSource(request.ProjectFile)
	if err != nil {
		return Environment{}, fmt.Errorf("build environment %q: %w", request.Name, err)
	}
	lock, err := s.lockName(request.Name)
	if err != nil {
		return Environment{}, err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with its descriptor
	work, done, err := s.workspace("build-")
	if err != nil {
		return Environment{}, fmt.Errorf("build environment %q: %w", request.Name, err)
	}
	defer done()
	b := &build{store: s, request: request, source: source, report: newReporter(request.Progress), work: work, started: time.Now()}
	made, err := b.run(ctx)
	if err != nil {
		return Environment{}, fmt.Errorf("build environment %q: %w", request.Name, err)
	}
	return made, nil
}

// A source is a project with the text it was read from, and its lock when it
// ships with one.
type source struct {
	project project
	text    []byte
	lock    []byte
}

func readSource(file string) (source, error) {
	if file == "" {
		text, err := defaultFiles.ReadFile("default/pyproject.toml")
		if err != nil {
			return source{}, err
		}
		lock, err := defaultFiles.ReadFile("default/requirements.lock")
		if err != nil {
			return source{}, err
		}
		parsed, err := parseProject("default/pyproject.toml", text)
		return source{project: parsed, text: text, lock: lock}, err
	}
	opened, err := os.Open(file)
	if err != nil {
		return source{}, fmt.Errorf("read the project file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxProject+1))
	if err := errors.Join(err, opened.Close()); err != nil {
		return source{}, fmt.Errorf("read the project file: %w", err)
	}
	parsed, err := parseProject(file, text)
	return source{project: parsed, text: text}, err
}

// A build is one run of Build.
type build struct {
	store   *Store
	request BuildRequest
	source  source
	report  reporter
	work    string // the build's own directory
	room    room
	site    string // site-packages, inside
	started time.Time
}

func (b *build) run(ctx context.Context) (Environment, error) {
	found, err := b.store.base(ctx, b.request, b.report)
	if err != nil {
		return Environment{}, err
	}
	if b.source.lock != nil { // the id is known before anything is unpacked
		if existing, err := b.unchanged(ctx, found, b.source.lock); err == nil {
			return existing, nil
		}
	}
	if err := b.furnish(ctx, found); err != nil {
		return Environment{}, err
	}
	python, err := b.store.findPython(ctx, b.room)
	if err != nil {
		return Environment{}, err
	}
	if err := b.checkVersion(found, python); err != nil {
		return Environment{}, err
	}
	if err := b.prepareUV(ctx); err != nil {
		return Environment{}, err
	}
	lock, err := b.lock(ctx, python)
	if err != nil {
		return Environment{}, err
	}
	if existing, err := b.unchanged(ctx, found, lock); err == nil {
		return existing, nil
	}
	id, err := b.identity(found, lock)
	if err != nil {
		return Environment{}, err
	}
	if err := b.fill(ctx, lock, python); err != nil {
		return Environment{}, err
	}
	return b.finish(ctx, Environment{
		Name: b.request.Name, ID: id, Image: imageRef(b.request.Name, id),
		Python: pythonPath, Version: python.Version, Base: found.String(), Preload: b.source.project.Preload,
	}, lock)
}

// lock is the one that ships with the project, else one that is made now.
func (b *build) lock(ctx context.Context, python interpreter) ([]byte, error) {
	if b.source.lock != nil {
		return b.source.lock, nil
	}
	return b.compileLock(ctx, b.source.project, python)
}

// checkVersion tells whether the base's Python is one that the project takes.
func (b *build) checkVersion(found base, python interpreter) error {
	clauses, err := parseSpecifiers(b.source.project.RequiresPython)
	if err != nil {
		return err
	}
	for _, clause := range clauses {
		if !clause.allows(python.Version) {
			return fmt.Errorf("the project requires Python %s, but the base %s has %s; choose another base image", b.source.project.RequiresPython, found, python.Version)
		}
	}
	return nil
}

// furnish lays out the base and what the steps need beside it.
func (b *build) furnish(ctx context.Context, found base) error {
	b.room = room{
		root:    filepath.Join(b.work, "version", "rootfs"),
		support: filepath.Join(b.work, "support"),
		cache:   b.store.cache("packages"),
	}
	for _, dir := range []string{b.room.root, b.room.support, filepath.Join(b.room.cache, "uv"), filepath.Join(b.room.cache, "apt", "partial")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	b.report.say(phaseBase, "unpacking "+found.String())
	if err := found.unpack(ctx, b.room.root); err != nil {
		return err
	}
	// A mount point for the host's resolver settings while packages are fetched.
	if err := b.writeFile("/etc/resolv.conf", nil); err != nil {
		return err
	}
	return b.store.furnish(b.room.support)
}

// prepareUV puts a uv that runs inside the tree into the support directory:
// the host's own, else the pinned one.
func (b *build) prepareUV(ctx context.Context) error {
	b.report.say(phaseTools, "looking for uv")
	if host := b.store.uvInPath(); host != "" {
		err := b.tryUV(ctx, host)
		if err == nil {
			return nil
		}
		b.store.log.InfoContext(ctx, "the uv of the search path does not run in the environment; the pinned one is used", "path", host, "error", err)
	}
	pinned, err := b.store.fetchUV(ctx, func(message string, done, total int64) {
		b.report.progress(phaseTools, message, done, total)
	})
	if err != nil {
		return err
	}
	return b.tryUV(ctx, pinned)
}

func (b *build) tryUV(ctx context.Context, binary string) error {
	if err := copyFile(binary, filepath.Join(b.room.support, "uv"), 0o755); err != nil {
		return err
	}
	return b.uv(ctx, phaseTools, "start uv", "--version")
}

// fill installs everything into the tree.
func (b *build) fill(ctx context.Context, lock []byte, python interpreter) error {
	if err := b.installSystem(ctx, b.source.project.Apt); err != nil {
		return err
	}
	if err := b.installPython(ctx, lock, python); err != nil {
		return err
	}
	minor := strings.Join(strings.Split(python.Version, ".")[:2], ".")
	b.site = venvDir + "/lib/python" + minor + "/site-packages"
	if err := b.installHook(); err != nil {
		return err
	}
	b.report.say(phaseBytecode, "compiling all packages")
	if err := b.store.compileBytecode(ctx, b.room, python, venvDir+"/lib"); err != nil {
		return err
	}
	return b.check(ctx, b.source.project.Preload)
}

// identity is the hash of everything that the content depends on.
func (b *build) identity(found base, lock []byte) (string, error) {
	hash := sha256.New()
	inputs := struct {
		Builder       int
		Arch          string
		Base, Digest  string
		Apt, Preload  []string
		Lock, Scripts string
	}{
		Builder: builderVersion, Arch: runtime.GOARCH, Base: found.Kind, Digest: found.Digest,
		Apt: b.source.project.Apt, Preload: b.source.project.Preload, Lock: digest(lock),
	}
	err := fs.WalkDir(insideFiles, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := insideFiles.ReadFile(name)
		inputs.Scripts += digest(content)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := json.NewEncoder(hash).Encode(inputs); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// unchanged returns the environment that a build on this base with this lock
// would give, when it is there and whole, and puts it in force.
func (b *build) unchanged(ctx context.Context, found base, lock []byte) (Environment, error) {
	id, err := b.identity(found, lock)
	if err != nil {
		return Environment{}, err
	}
	existing, err := b.store.read(b.request.Name, id[:12])
	if err != nil {
		return Environment{}, err
	}
	if existing.ID != id {
		return Environment{}, fmt.Errorf("version %s is of another build", id[:12])
	}
	b.report.say(phaseFinish, "nothing has changed")
	return existing, b.store.putInForce(ctx, existing)
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
