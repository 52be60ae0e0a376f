package environment

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBaseFromDocker: a base comes from the local image once, again when the
// image changes or a refresh is asked for, and is stripped.
func TestBaseFromDocker(t *testing.T) {
	image := t.TempDir()
	grow(t, image, "usr/bin/python3", "var/cache/apt/archive.deb")
	packed := archive(t, image)
	exports := 0
	docker := &fakeDaemon{images: map[string]string{DefaultImage: "sha256:1"}, export: func() (io.ReadCloser, error) {
		exports++
		return io.NopCloser(bytes.NewReader(packed)), nil
	}}
	s := openStore(t, docker)
	refresh := false
	for _, tt := range []struct {
		name    string
		change  func()
		exports int
	}{
		{"first", func() {}, 1},
		{"unchanged", func() {}, 1},
		{"changed", func() { docker.images[DefaultImage] = "sha256:2" }, 2},
		{"refreshed", func() { refresh = true }, 3},
	} {
		tt.change()
		found, err := s.tryBase(t.Context(), s.dockerWay(DefaultImage), refresh, newReporter(nil))
		must(t, err)
		if exports != tt.exports || found.Digest != docker.images[DefaultImage] {
			t.Errorf("%s: %d exports, digest %s", tt.name, exports, found.Digest)
		}
		dir := t.TempDir()
		must(t, found.unpack(t.Context(), dir))
		if _, err := os.Stat(filepath.Join(dir, "usr/bin/python3")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "var/cache/apt")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the base was not stripped: %v", err)
		}
	}
}

// TestBaseFailureLeavesNothing: an export that breaks is no base.
func TestBaseFailureLeavesNothing(t *testing.T) {
	image := t.TempDir()
	grow(t, image, "usr/bin/python3")
	packed := archive(t, image)
	docker := &fakeDaemon{images: map[string]string{DefaultImage: "sha256:1"}, export: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed[:700])), nil
	}}
	s := openStore(t, docker)
	if _, err := s.tryBase(t.Context(), s.dockerWay(DefaultImage), false, newReporter(nil)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v, want the cut", err)
	}
	for _, dir := range []string{s.temp(), s.cache("base")} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), ".lock") {
				t.Errorf("left behind: %s", entry.Name())
			}
		}
	}
}

func TestBaseRefusals(t *testing.T) {
	s := openStore(t, nil)
	for name, tt := range map[string]struct {
		request BuildRequest
		want    []string
	}{
		"unknown kind": {BuildRequest{Base: "scratch"}, []string{"use auto, registry, docker or debootstrap"}},
		"no daemon":    {BuildRequest{Base: BaseDocker}, []string{"docker (python:3.13-slim): no Docker daemon is reachable"}},
		"bad image":    {BuildRequest{Base: BaseRegistry, Image: "UPPER CASE"}, []string{"is not an image reference"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.base(t.Context(), tt.request, newReporter(nil))
			if !errors.Is(err, ErrNoBase) {
				t.Fatalf("got %v, want ErrNoBase", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

func TestExplainBootstrap(t *testing.T) {
	for output, want := range map[string]string{
		"E: Release signed by unknown key (key id 6ED0E7B82643E131)":      "upgrade the package debian-archive-keyring",
		"E: Failed getting release file http://x/dists/trixie/Release":    "name a mirror",
		"W: Failure trying to run: chroot /x mount /proc":                 "chroot /x mount",
		"E: Invalid Release file, no entry for main/binary-amd64/Release": "name a mirror",
	} {
		err := explainBootstrap(&StepError{Step: "s", Err: errors.New("exit status 1"), Output: output})
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), output) {
			t.Errorf("got %v, want %q and the tool's own word", err, want)
		}
	}
}

func TestPackagesDigest(t *testing.T) {
	status := func(text string) string {
		dir := t.TempDir()
		grow(t, dir, "var/lib/dpkg/status")
		must(t, os.WriteFile(filepath.Join(dir, "var/lib/dpkg/status"), []byte(text), 0o644))
		digest, err := packagesDigest(dir)
		must(t, err)
		return digest
	}
	one := status("Package: a\nStatus: x\nVersion: 1\n\nPackage: b\nVersion: 2\n")
	if two := status("Package: b\nVersion: 2\n\nPackage: a\nStatus: y\nVersion: 1\n"); one != two {
		t.Error("the order matters")
	}
	if two := status("Package: a\nVersion: 1\n\nPackage: b\nVersion: 3\n"); one == two {
		t.Error("a version does not matter")
	}
}
