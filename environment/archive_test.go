package environment

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// plant makes a small tree with one of everything.
func plant(t *testing.T, dir string) {
	t.Helper()
	for name, mode := range map[string]fs.FileMode{"bin": 0o755, "tmp": 0o777 | fs.ModeSticky, "secret": 0o700} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	must(t, os.WriteFile(filepath.Join(dir, "bin/tool"), []byte("#!"), 0o755))
	must(t, os.Chmod(filepath.Join(dir, "bin/tool"), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	must(t, os.Link(filepath.Join(dir, "bin/tool"), filepath.Join(dir, "bin/twin")))
	must(t, os.Symlink("/etc/shadow", filepath.Join(dir, "bin/link")))
	must(t, os.WriteFile(filepath.Join(dir, "secret/key"), []byte("s"), 0o600))
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func archive(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, writeTree(t.Context(), dir, &out))
	return out.Bytes()
}

// TestWriteTreeIsDeterministic: the same content gives the same bytes, whoever
// made it, when, and in which order.
func TestWriteTreeIsDeterministic(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	plant(t, one)
	plant(t, two)
	must(t, os.Chtimes(filepath.Join(two, "secret/key"), time.Unix(1, 0), time.Unix(1, 0)))
	if !bytes.Equal(archive(t, one), archive(t, two)) {
		t.Error("the archives differ")
	}
	must(t, os.WriteFile(filepath.Join(two, "secret/key"), []byte("x"), 0o600))
	if bytes.Equal(archive(t, one), archive(t, two)) {
		t.Error("other content gave the same archive")
	}
}

func TestWriteTreeHeaders(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir)
	type entry struct {
		Name, Link string
		Type       byte
		Mode       int64
	}
	var got []entry
	for reader := tar.NewReader(bytes.NewReader(archive(t, dir))); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || !header.ModTime.Equal(archiveTime()) {
			t.Errorf("%s: owner %d:%d %q, time %v", header.Name, header.Uid, header.Gid, header.Uname, header.ModTime)
		}
		got = append(got, entry{header.Name, header.Linkname, header.Typeflag, header.Mode})
	}
	want := []entry{
		{"bin/", "", tar.TypeDir, 0o755},
		{"bin/link", "/etc/shadow", tar.TypeSymlink, 0o777},
		{"bin/tool", "", tar.TypeReg, 0o755},
		{"bin/twin", "bin/tool", tar.TypeLink, 0o755},
		{"secret/", "", tar.TypeDir, 0o700},
		{"secret/key", "", tar.TypeReg, 0o600},
		{"tmp/", "", tar.TypeDir, 0o1777},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadTreeRoundTrip(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	plant(t, one)
	first := archive(t, one)
	must(t, readTree(t.Context(), bytes.NewReader(first), two))
	if !bytes.Equal(first, archive(t, two)) {
		t.Error("unpacked and packed again, the archive differs")
	}
}

// TestReadTreeHostile: nothing is ever written outside, whatever the archive says.
func TestReadTreeHostile(t *testing.T) {
	for name, tt := range map[string]struct {
		headers []tar.Header
		refused bool
	}{
		"dots in a name stay inside": {headers: []tar.Header{{Name: "../../victim/file", Typeflag: tar.TypeReg}}},
		"an absolute name is inside": {headers: []tar.Header{{Name: "/victim/file", Typeflag: tar.TypeReg}}},
		"through an absolute link": {refused: true, headers: []tar.Header{
			{Name: "out", Linkname: "VICTIM", Typeflag: tar.TypeSymlink}, {Name: "out/file", Typeflag: tar.TypeReg},
		}},
		"through a relative link": {refused: true, headers: []tar.Header{
			{Name: "out", Linkname: "../victim", Typeflag: tar.TypeSymlink}, {Name: "out/file", Typeflag: tar.TypeReg},
		}},
		"a hard link to the outside": {refused: true, headers: []tar.Header{
			{Name: "out", Linkname: "VICTIM", Typeflag: tar.TypeSymlink}, {Name: "hard", Linkname: "out/there", Typeflag: tar.TypeLink},
		}},
		"over a link": {headers: []tar.Header{
			{Name: "file", Linkname: "VICTIM/there", Typeflag: tar.TypeSymlink}, {Name: "file", Typeflag: tar.TypeReg},
		}},
		"a device": {headers: []tar.Header{{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}},
		"too large": {refused: true, headers: []tar.Header{
			{Name: "huge", Typeflag: tar.TypeReg, Size: maxArchiveBytes + 1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			victim, target := filepath.Join(top, "victim"), filepath.Join(top, "target")
			must(t, os.Mkdir(victim, 0o755))
			must(t, os.Mkdir(target, 0o755))
			must(t, os.WriteFile(filepath.Join(victim, "there"), []byte("before"), 0o644))
			var packed bytes.Buffer
			w := tar.NewWriter(&packed)
			for _, h := range tt.headers {
				h.Mode = 0o4755
				if rest, found := bytes.CutPrefix([]byte(h.Linkname), []byte("VICTIM")); found {
					h.Linkname = victim + string(rest)
				}
				must(t, w.WriteHeader(&h))
			}
			err := readTree(t.Context(), &packed, target)
			if tt.refused != (err != nil) {
				t.Errorf("refused: %v, want %v", err, tt.refused)
			}
			entries, err := os.ReadDir(victim)
			must(t, err)
			content, err := os.ReadFile(filepath.Join(victim, "there"))
			must(t, err)
			if len(entries) != 1 || string(content) != "before" {
				t.Errorf("something was written outside: %v, %q", entries, content)
			}
			must(t, filepath.WalkDir(target, func(p string, e fs.DirEntry, err error) error {
				if info, statErr := os.Lstat(p); statErr == nil && info.Mode()&(fs.ModeSetuid|fs.ModeDevice) != 0 {
					t.Errorf("%s has mode %v", p, info.Mode())
				}
				return err
			}))
		})
	}
}

func TestReadTreeCut(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir)
	whole := archive(t, dir)
	if err := readTree(t.Context(), bytes.NewReader(whole[:1300]), t.TempDir()); err == nil {
		t.Error("an archive that was cut was taken for whole")
	}
}
