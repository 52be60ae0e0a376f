package hostmount

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// ErrBusy is the class of failures where something is attached above the
// target, or something of another kind at it.
var ErrBusy = fmt.Errorf("something else is exposed there (%w); choose another path", fs.ErrExist)

// A Request says what to attach where.
type Request struct {
	// PID is a process in the sandbox's mount namespace, by its host number.
	PID int
	// Root is where the sandbox's root lies in that namespace; "/" mostly.
	Root string
	// Source is the open file or directory. The caller keeps it.
	Source *os.File
	// Target is the place in the sandbox, beneath one of sandbox.LiveRoots,
	// which must be writable by root only. What is missing is made; what was
	// attached at the same place is replaced by what is attached now.
	Target string
	// Mode is read-only unless it says otherwise.
	Mode sandbox.Mode
	// UID and GID are the host's ids of the sandbox's user.
	UID, GID int
}

// A Result tells how it was attached.
type Result struct {
	// Mapped: files belong to the source's owner outside and to the sandbox's
	// user inside. Otherwise ids are the same on both sides.
	Mapped bool
	// Reason tells why not.
	Reason string
}

// split checks the target and gives its live root and the names below it.
func split(target string) (root string, names []string, err error) {
	if err := sandbox.CheckTarget(target); err != nil {
		return "", nil, fmt.Errorf("target %q %w", target, err)
	}
	for _, root := range sandbox.LiveRoots() {
		if below, ok := strings.CutPrefix(target, root+"/"); ok {
			return root, strings.Split(path.Clean(below), "/"), nil
		}
	}
	return "", nil, fmt.Errorf("target %q is not beneath %s", target, strings.Join(sandbox.LiveRoots(), ", "))
}
