package environment

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	hashA = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	hashB = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
)

func TestParseLock(t *testing.T) {
	got, err := parseLock([]byte(`# a comment
python_Dateutil==2.9.0.post0 \
    --hash=sha256:` + hashA + ` \
    --hash=sha256:` + hashB + `
    # via pandas

colorama==0.4.6 ; sys_platform == 'win32' \
    --hash=sha256:` + hashA + `
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []pin{
		{Name: "python-dateutil", Version: "2.9.0.post0", Hashes: []string{hashA, hashB}},
		{Name: "colorama", Version: "0.4.6", Hashes: []string{hashA}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseLockFaults(t *testing.T) {
	_, err := parseLock([]byte(`six>=1
numpy==2.0
pandas==3.0 --hash=md5:00
--index-url https://example.org/
idna==3.0 --hash=sha256:` + hashA + `
idna==3.1 --hash=sha256:` + hashA + `
`))
	if !errors.Is(err, ErrLock) {
		t.Fatalf("got %v, want ErrLock", err)
	}
	want := []string{
		`line 1: "six>=1" is not a pinned requirement (name==version)`,
		`line 2: numpy has no hash`,
		`line 3: pandas: "--hash=md5:00" is not a SHA-256 hash`,
		`line 4: "--index-url https://example.org/" is not a pinned requirement (name==version)`,
		`line 6: idna is already pinned on line 5`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")[1:]); diff != "" {
		t.Error(diff)
	}
	if _, err := parseLock([]byte("# nothing\n")); !errors.Is(err, ErrLock) {
		t.Errorf("an empty lock: got %v, want ErrLock", err)
	}
}

// TestDefaultLock: the lock that ships fits the project that ships.
func TestDefaultLock(t *testing.T) {
	source, err := readSource("")
	if err != nil {
		t.Fatal(err)
	}
	pins, err := parseLock(source.lock)
	if err != nil {
		t.Fatal(err)
	}
	pinned := make(map[string]bool)
	for _, p := range pins {
		pinned[p.Name] = true
	}
	for _, d := range source.project.Dependencies {
		if !pinned[requirementName(d)] {
			t.Errorf("%s is not in requirements.lock: run make lock", d)
		}
	}
	for _, module := range source.project.Preload {
		if top, _, _ := strings.Cut(module, "."); !pinned[top] {
			t.Errorf("the preloaded module %s is of no pinned package", module)
		}
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte("a==1 --hash=sha256:" + hashA))
	f.Add([]byte("a==1 \\\n\\\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pins, err := parseLock(data)
		if err != nil {
			return
		}
		for _, p := range pins {
			if len(p.Hashes) == 0 {
				t.Errorf("%s is pinned without a hash", p.Name)
			}
		}
	})
}
