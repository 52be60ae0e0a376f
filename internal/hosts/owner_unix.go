//go:build unix

package hosts

import (
	"io/fs"
	"os"
	"syscall"
)

// sameOwner gives a new file the owner of another, which differs where root
// changes a user's file.
func sameOwner(file *os.File, like fs.FileInfo) error {
	made, err := file.Stat()
	if err != nil {
		return err
	}
	want, ok := like.Sys().(*syscall.Stat_t)
	got, okGot := made.Sys().(*syscall.Stat_t)
	if !ok || !okGot || want.Uid == got.Uid && want.Gid == got.Gid {
		return nil
	}
	return file.Chown(int(want.Uid), int(want.Gid))
}
