package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func openStore(t *testing.T, docker DaemonImages) *Store {
	t.Helper()
	s, err := Open(Options{
		DataDir: t.TempDir(), Docker: docker, Environ: os.Environ(),
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	must(t, err)
	return s
}

// place puts a finished environment into the store without building it.
func place(t *testing.T, s *Store, name, seed string) Environment {
	t.Helper()
	id := digest([]byte(seed))
	dir := filepath.Join(s.home(name), id[:12])
	grow(t, filepath.Join(dir, "rootfs"), "etc/hostname")
	e := Environment{
		Name: name, ID: id, Image: imageRef(name, id), Python: pythonPath, Version: "3.13.5", Base: "debootstrap trixie",
		Packages: []Package{{"six", "1.17.0"}}, Preload: []string{"six"}, Created: time.Unix(1e9, 0).UTC(), Size: 7,
	}
	data, err := json.Marshal(e)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "environment.json"), data, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "in-use.lock"), nil, 0o644))
	must(t, s.putInForce(t.Context(), e))
	found, err := s.Find(name)
	must(t, err)
	e.Dir = filepath.Join(dir, "rootfs")
	if diff := cmp.Diff(e, found); diff != "" {
		t.Fatal(diff)
	}
	return found
}

func TestFindMissing(t *testing.T) {
	s := openStore(t, nil)
	for name, want := range map[string]string{
		"default":     "biocage env build",
		"mine":        "biocage env build --from pyproject.toml --name mine",
		"../../etc":   ErrName.Error(),
		"Upper":       ErrName.Error(),
		"a--b":        ErrName.Error(),
		"":            ErrName.Error(),
		"-a":          ErrName.Error(),
		"a.b-c_d.e-9": "biocage env build",
	} {
		_, err := s.Find(name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q): got %v, want %q", name, err, want)
		}
	}
	if _, err := s.Find("default"); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("got %v, want ErrNotBuilt", err)
	}
}

func TestFindDamaged(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"no description": func(dir string) error { return os.Remove(filepath.Join(dir, "environment.json")) },
		"bad description": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "environment.json"), []byte("{"), 0o644)
		},
		"no tree": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "rootfs")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, nil)
			e := place(t, s, "mine", "a")
			must(t, harm(filepath.Dir(e.Dir)))
			if _, err := s.Find("mine"); err == nil || !strings.Contains(err.Error(), "build it again with: biocage env build") {
				t.Errorf("got %v, want the remedy", err)
			}
			if list, err := s.List(); err != nil || len(list) != 0 {
				t.Errorf("List: %v %v", list, err)
			}
		})
	}
}

func TestList(t *testing.T) {
	s := openStore(t, nil)
	want := []Environment{place(t, s, "alpha", "a"), place(t, s, "beta", "b")}
	must(t, os.Mkdir(s.home("empty"), 0o755))
	got, err := s.List()
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNewVersion: a version that is held survives the next one, and is swept
// when it is free; one that nobody holds goes at once.
func TestNewVersion(t *testing.T) {
	s := openStore(t, nil)
	old := place(t, s, "mine", "old")
	hold, err := s.Hold(old)
	must(t, err)
	middle := place(t, s, "mine", "middle")
	if _, err := os.Stat(old.Dir); err != nil {
		t.Errorf("a tree in use was removed: %v", err)
	}
	must(t, hold.Close())
	place(t, s, "mine", "new")
	for _, gone := range []Environment{old, middle} {
		if _, err := os.Stat(gone.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", gone.Dir, err)
		}
		if _, err := s.Hold(gone); !errors.Is(err, ErrNotBuilt) {
			t.Errorf("Hold of a version that is gone: %v", err)
		}
	}
}

func TestRemove(t *testing.T) {
	docker := &fakeDaemon{}
	s := openStore(t, docker)
	e := place(t, s, "mine", "a")
	first, err := s.Hold(e)
	must(t, err)
	second, err := s.Hold(e)
	must(t, err)
	must(t, first.Close())
	if err := s.Remove(t.Context(), "mine"); !errors.Is(err, ErrInUse) {
		t.Fatalf("got %v, want ErrInUse", err)
	}
	must(t, second.Close())
	must(t, s.Remove(t.Context(), "mine"))
	if _, err := s.Find("mine"); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("got %v, want ErrNotBuilt", err)
	}
	if err := s.Remove(t.Context(), "mine"); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("the second Remove: got %v, want ErrNotBuilt", err)
	}
	if diff := cmp.Diff([]string{e.Image, "biocage/mine:latest", "biocage:mine"}, docker.removed); diff != "" {
		t.Error(diff)
	}
	if left, err := os.ReadDir(s.temp()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestRemoveWhileBuilding(t *testing.T) {
	s := openStore(t, nil)
	place(t, s, "mine", "a")
	lock, err := s.lockName("mine")
	must(t, err)
	defer lock.Close()
	if err := s.Remove(t.Context(), "mine"); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	if _, err := s.Build(t.Context(), BuildRequest{Name: "mine"}); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

func TestLoad(t *testing.T) {
	docker := &fakeDaemon{}
	s := openStore(t, docker)
	e := place(t, s, "mine", "a")
	for range 2 {
		must(t, s.Load(t.Context(), e))
	}
	if diff := cmp.Diff([]string{e.Image}, docker.imported); diff != "" {
		t.Error("it must be imported once:", diff)
	}
	if diff := cmp.Diff(map[string]string{e.Image: "id", "biocage/mine:latest": "id"}, docker.images); diff != "" {
		t.Error(diff)
	}
	copied := t.TempDir()
	must(t, readTree(t.Context(), strings.NewReader(docker.content), copied))
	if content, err := os.ReadFile(filepath.Join(copied, "etc/hostname")); err != nil || string(content) != "content" {
		t.Errorf("the image's content: %q %v", content, err)
	}
	if !slices.Contains(docker.changes, "WORKDIR /work") || !slices.Contains(docker.changes, "ENV LANG=C.UTF-8") {
		t.Errorf("the image's settings: %q", docker.changes)
	}
}

func TestLoadFailures(t *testing.T) {
	s := openStore(t, nil)
	e := place(t, s, "mine", "a")
	if err := s.Load(t.Context(), e); !errors.Is(err, ErrNoDocker) {
		t.Errorf("got %v, want ErrNoDocker", err)
	}
	refusal := errors.New("no space left")
	s.docker = &fakeDaemon{refusal: refusal}
	if err := s.Load(t.Context(), e); !errors.Is(err, refusal) {
		t.Errorf("got %v, want the daemon's word", err)
	}
	must(t, os.RemoveAll(e.Dir))
	s.docker = &fakeDaemon{}
	if err := s.Load(t.Context(), e); err == nil {
		t.Error("a tree that cannot be read was loaded")
	}
}

// fakeDaemon is a Docker daemon that keeps images in memory.
type fakeDaemon struct {
	images   map[string]string
	content  string
	changes  []string
	imported []string
	removed  []string
	refusal  error
	derived  int
	export   func() (io.ReadCloser, error)
}

func (d *fakeDaemon) ImageID(_ context.Context, ref string) (string, error) {
	return d.images[ref], nil
}

func (d *fakeDaemon) ExportImage(context.Context, string) (io.ReadCloser, error) { return d.export() }

func (d *fakeDaemon) ImportImage(_ context.Context, ref string, rootfs io.Reader, changes []string) error {
	if d.refusal != nil {
		return d.refusal
	}
	content, err := io.ReadAll(rootfs)
	if err != nil {
		return fmt.Errorf("the stream broke: %w", err)
	}
	d.images = map[string]string{ref: "id"}
	d.content, d.changes, d.imported = string(content), changes, append(d.imported, ref)
	return nil
}

func (d *fakeDaemon) DeriveImage(_ context.Context, base, ref string, files io.Reader, changes []string) error {
	content, err := io.ReadAll(files)
	if err != nil {
		return fmt.Errorf("the stream broke: %w", err)
	}
	if d.refusal != nil {
		return d.refusal
	}
	d.derived++
	d.images[ref] = fmt.Sprintf("%s of %s", ref, d.images[base])
	if d.derived > 1 {
		d.images[ref] += fmt.Sprint(" ", d.derived)
	}
	d.content, d.changes = string(content), changes
	return nil
}

func (d *fakeDaemon) TagImage(_ context.Context, ref, tag string) error {
	d.images[tag] = d.images[ref]
	return nil
}

func (d *fakeDaemon) RemoveImage(_ context.Context, ref string) error {
	d.removed = append(d.removed, ref)
	return nil
}

func TestDefaultDataDir(t *testing.T) {
	for name, tt := range map[string]struct {
		euid int
		env  map[string]string
		want string
	}{
		"root":          {0, map[string]string{"HOME": "/root", "XDG_DATA_HOME": "/x"}, "/var/lib/biocage"},
		"user":          {1000, map[string]string{"HOME": "/home/u"}, "/home/u/.local/share/biocage"},
		"user with XDG": {1000, map[string]string{"HOME": "/home/u", "XDG_DATA_HOME": "/data"}, "/data/biocage"},
		"relative XDG":  {1000, map[string]string{"HOME": "/home/u", "XDG_DATA_HOME": "data"}, "/home/u/.local/share/biocage"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DefaultDataDir(tt.euid, func(key string) string { return tt.env[key] }); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// An ordinary user's store reads the machine's, and changes nothing there.
func TestTheMachinesEnvironments(t *testing.T) {
	machine, s := openStore(t, nil), openStore(t, nil)
	s.shared = machine.dir
	theirs := place(t, machine, "default", "machine")
	place(t, machine, "tools", "machine")

	found, err := s.Find("default")
	must(t, err)
	if diff := cmp.Diff(theirs, found); diff != "" {
		t.Error(diff)
	}
	hold, err := s.Hold(found)
	must(t, err)
	if err := machine.Remove(t.Context(), "default"); !errors.Is(err, ErrInUse) {
		t.Errorf("removed while a user holds it: %v", err)
	}
	must(t, hold.Close())
	if err := s.Remove(t.Context(), "default"); !errors.Is(err, ErrShared) || !strings.Contains(err.Error(), machine.dir) {
		t.Errorf("remove the machine's: %v", err)
	}

	own := place(t, s, "default", "own")
	found, err = s.Find("default")
	must(t, err)
	if diff := cmp.Diff(own, found); diff != "" {
		t.Error(diff)
	}
	all, err := s.List()
	must(t, err)
	if len(all) != 2 || all[0].ID != own.ID || all[1].Name != "tools" {
		t.Errorf("listed: %+v", all)
	}
	must(t, s.Remove(t.Context(), "default"))
	if _, err := machine.Find("default"); err != nil {
		t.Errorf("the machine's is gone: %v", err)
	}
	if _, err := s.Find("none"); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("none: %v", err)
	}
}

// A lock that is shared is taken by whoever may read its file alone.
func TestHoldOnlyReads(t *testing.T) {
	s := openStore(t, nil)
	e := place(t, s, "default", "x")
	hold, err := s.Hold(e)
	must(t, err)
	defer hold.Close()
	lock, ok := hold.(*fileLock)
	if !ok {
		t.Fatalf("%T", hold)
	}
	if _, err := lock.file.WriteString("x"); err == nil {
		t.Error("the lock's file was opened for writing")
	}
}
