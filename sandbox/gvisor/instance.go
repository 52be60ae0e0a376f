//go:build linux && (amd64 || arm64)

package gvisor

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An instance is an engine's directory below the run directory:
//
//	RUN/i-XXXXXXXX/owner    who may use it: pid, start time, boot
//	RUN/i-XXXXXXXX/state/   gVisor's state files and control sockets
//	RUN/i-XXXXXXXX/SANDBOX/ one sandbox's bundle and live roots
type instance struct {
	name string
	dir  string
}

const (
	instancePrefix = "i-"
	newPrefix      = ".new-" // an instance that is being made
	ownerFile      = "owner"
	stateName      = "state"
	sandboxPrefix  = "gv-"
	// staleAfter is how old an instance without an owner must be before it
	// counts as left behind and not as being made.
	staleAfter = 10 * time.Minute
)

// owner names a process for good, pids being used again.
type owner struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

func self() (owner, error) {
	start, err := procStartTime(os.Getpid())
	if err != nil {
		return owner{}, err
	}
	boot, err := bootID()
	return owner{PID: os.Getpid(), Start: start, Boot: boot}, err
}

// alive errs on the side of life: what cannot be read is not dead.
func (o owner) alive() bool {
	boot, err := bootID()
	if err != nil {
		return true
	}
	if boot != o.Boot {
		return false
	}
	start, err := procStartTime(o.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false
	}
	return err != nil || start == o.Start
}

func randomName(prefix string) string {
	var raw [6]byte
	_, _ = rand.Read(raw[:]) // never fails
	return prefix + hex.EncodeToString(raw[:])
}

// newInstance makes the directory complete under another name first, so that
// an instance is never seen without its owner.
func newInstance(runDir string) (*instance, error) {
	me, err := self()
	if err != nil {
		return nil, fmt.Errorf("tell this process from others: %w", err)
	}
	raw, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	name := randomName("")
	fresh := filepath.Join(runDir, newPrefix+name)
	if err := makeOpen(filepath.Join(fresh, stateName)); err != nil {
		return nil, err
	}
	if err := writeOpen(filepath.Join(fresh, ownerFile), raw); err != nil {
		return nil, errors.Join(err, os.RemoveAll(fresh))
	}
	in := &instance{name: instancePrefix + name, dir: filepath.Join(runDir, instancePrefix+name)}
	if err := os.Rename(fresh, in.dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(fresh))
	}
	return in, nil
}

// groupName names the instance's control groups. It tells run directories
// apart, as the groups of all are in one place.
func (in *instance) groupName() string { return groupPrefix(filepath.Dir(in.dir)) + in.name }

func groupPrefix(runDir string) string {
	sum := sha256.Sum256([]byte(runDir))
	return "biocage-" + hex.EncodeToString(sum[:4]) + "-"
}

func (in *instance) state() string { return filepath.Join(in.dir, stateName) }

func (in *instance) sandboxDir(id string) string { return filepath.Join(in.dir, id) }

// sandboxes lists the ids of the sandboxes that have a directory here.
func (in *instance) sandboxes() ([]string, error) {
	entries, err := os.ReadDir(in.dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), sandboxPrefix) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// dead tells whether nobody owns the instance any more.
func (in *instance) dead(now time.Time) (bool, error) {
	raw, err := os.ReadFile(filepath.Join(in.dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		info, err := os.Stat(in.dir)
		if err != nil {
			return false, err
		}
		return now.Sub(info.ModTime()) > staleAfter, nil
	}
	if err != nil {
		return false, err
	}
	var who owner
	if err := json.Unmarshal(raw, &who); err != nil {
		return false, fmt.Errorf("%s/%s is not an owner file: %w", in.dir, ownerFile, err)
	}
	return !who.alive(), nil
}

// instances lists all of a run directory, those half made too.
func instances(runDir string) ([]*instance, error) {
	entries, err := os.ReadDir(runDir)
	if err != nil {
		return nil, err
	}
	var all []*instance
	for _, e := range entries {
		if e.IsDir() && (strings.HasPrefix(e.Name(), instancePrefix) || strings.HasPrefix(e.Name(), newPrefix)) {
			all = append(all, &instance{name: e.Name(), dir: filepath.Join(runDir, e.Name())})
		}
	}
	return all, nil
}

// prepareRunDir makes the run directory and refuses one that others could
// have prepared.
func prepareRunDir(dir string) error {
	switch {
	case !filepath.IsAbs(dir) || filepath.Clean(dir) != dir:
		return fmt.Errorf("the run directory %q is not a clean absolute path", dir)
	case len(dir) > MaxRunDir:
		return fmt.Errorf("the run directory %s is longer than %d bytes; choose a shorter one, such as /run/biocage", dir, MaxRunDir)
	}
	if err := makeOpen(dir); err != nil {
		return fmt.Errorf("make the run directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	if !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("the run directory %s must be a directory of this user that nobody else can write; remove it or choose another", dir)
	}
	return nil
}

// makeOpen makes a directory that others may pass through, because sandboxes'
// host users are others. Nothing secret lies in a run directory.
func makeOpen(dir string) error {
	return os.MkdirAll(dir, 0o755) //nolint:gosec // see above
}

// writeOpen writes a file that others may read.
func writeOpen(path string, raw []byte) error {
	return os.WriteFile(path, raw, 0o644) //nolint:gosec // see makeOpen
}
