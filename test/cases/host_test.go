package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// hostArgs are the arguments of all verbs about host files.
type hostArgs struct {
	Path    string          `json:"path"`
	Content string          `json:"content"`
	Base64  []byte          `json:"content_base64"`
	Mode    json.RawMessage `json:"mode"`
	Owner   json.RawMessage `json:"owner"`
	Target  string          `json:"target"`
	Size    int64           `json:"size"`
	Dir     string          `json:"dir"`
	Count   int             `json:"count"`
}

func (a hostArgs) data() []byte {
	if a.Base64 != nil {
		return a.Base64
	}
	return []byte(a.Content)
}

// onHost makes a verb of a function on the host's files.
func onHost(do func(hostArgs, *outcome) error) verb {
	return func(_ *runner, st *step) (answers, error) {
		var args hostArgs
		if err := st.decode(&args); err != nil {
			return answers{}, err
		}
		got := nothing()
		return got, do(args, got.first)
	}
}

// hostWrite writes in place: an existing file keeps its inode.
func hostWrite(a hostArgs, _ *outcome) error {
	if err := os.MkdirAll(filepath.Dir(a.Path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(a.Path, a.data(), 0o644); err != nil {
		return err
	}
	return a.dress(a.Path)
}

// dress gives the path its mode and owner, as the case wants them.
func (a hostArgs) dress(path string) error {
	if a.Mode != nil {
		mode, err := strconv.ParseUint(strings.TrimPrefix(strings.Trim(string(a.Mode), `"`), "0o"), 8, 32)
		if err != nil {
			return fmt.Errorf("mode %s is not understood: %w", a.Mode, err)
		}
		if err := os.Chmod(path, fs.FileMode(mode)); err != nil {
			return err
		}
	}
	if a.Owner != nil {
		user, group, both := strings.Cut(strings.Trim(string(a.Owner), `"`), ":")
		if !both {
			group = user
		}
		uid, err := strconv.Atoi(user)
		if err != nil {
			return fmt.Errorf("owner %s is not understood: %w", a.Owner, err)
		}
		gid, err := strconv.Atoi(group)
		if err != nil {
			return fmt.Errorf("owner %s is not understood: %w", a.Owner, err)
		}
		return os.Chown(path, uid, gid)
	}
	return nil
}

func hostReplace(a hostArgs, _ *outcome) error {
	fresh := a.Path + ".new"
	if err := os.WriteFile(fresh, a.data(), 0o644); err != nil {
		return err
	}
	if err := a.dress(fresh); err != nil {
		return err
	}
	return os.Rename(fresh, a.Path)
}

func hostDelete(a hostArgs, _ *outcome) error { return os.RemoveAll(a.Path) }

func hostSymlink(a hostArgs, _ *outcome) error { return os.Symlink(a.Target, a.Path) }

func hostMkdir(a hostArgs, _ *outcome) error {
	if err := os.MkdirAll(a.Path, 0o755); err != nil {
		return err
	}
	return a.dress(a.Path)
}

func hostMkfifo(a hostArgs, _ *outcome) error { return syscall.Mkfifo(a.Path, 0o644) }

// hostTruncate makes the file first: a sparse large file is what it is for.
func hostTruncate(a hostArgs, _ *outcome) error {
	f, err := os.OpenFile(a.Path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(a.Size), f.Close())
}

func hostMany(a hostArgs, _ *outcome) error {
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		return err
	}
	for i := range a.Count {
		if err := os.WriteFile(filepath.Join(a.Dir, fmt.Sprintf("f%05d.txt", i)), []byte("x"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func hostRead(a hostArgs, out *outcome) error {
	raw, err := os.ReadFile(a.Path)
	out.value = string(raw)
	return err
}

func hostExists(a hostArgs, out *outcome) error {
	_, err := os.Lstat(a.Path)
	out.value = err == nil
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func hostStat(a hostArgs, out *outcome) error {
	info, err := os.Lstat(a.Path)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out.owner = fmt.Sprintf("%d:%d", st.Uid, st.Gid)
	}
	return nil
}
