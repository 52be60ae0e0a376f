package session

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// An OwnFile is a file of this server that no sandbox may have, wherever it
// lies: alone, or in a folder that holds it.
type OwnFile struct {
	Path string
	What string // it is, in a refusal: "the audit log"
	// Readable: a sandbox may read it, but never change what this server obeys.
	Readable bool
	Remedy   string // beside exposing something else; may be empty
}

// openRoots opens a path beneath roots, unless files of this server are there.
func (m *Manager) openRoots(roots []HostRoot, name string, mode sandbox.Mode) (*hostFile, error) {
	h, err := openHost(roots, name, mode)
	if err != nil {
		return nil, err
	}
	return m.withoutOwn(h, mode)
}

// withoutOwn gives h back, or closes it when it is or holds a file of this
// server's.
func (m *Manager) withoutOwn(h *hostFile, mode sandbox.Mode) (*hostFile, error) {
	st, err := h.file.Stat()
	if err == nil {
		err = m.checkOwn(h.path, st, mode)
	} else {
		err = hostError(h.path, err)
	}
	if err != nil {
		h.file.Close() //nolint:errcheck // opened for reading
		return nil, err
	}
	return h, nil
}

// checkOwn looks for this server's files anew each time, because they may be
// moved while it runs. A folder is judged by where it really is.
func (m *Manager) checkOwn(real string, st fs.FileInfo, mode sandbox.Mode) error {
	for _, own := range m.opts.Own {
		if own.Path == "" || own.Readable && mode == sandbox.ReadOnly {
			continue
		}
		there, err := os.Stat(own.Path)
		same := err == nil && os.SameFile(there, st)
		if same || holdsAny(real, own.Path) {
			return ownError(real, own)
		}
	}
	for _, place := range m.opts.Private {
		if place != "" && (holds(place, real) || holds(real, place)) {
			return ownError(real, OwnFile{Path: place, What: "files of this server"})
		}
	}
	return nil
}

// holdsAny tells whether outer holds a file by the name that it was given, or
// by where it really is: its own name may be a link, and so may a folder's.
func holdsAny(outer, name string) bool {
	if holds(outer, name) {
		return true
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil && holds(outer, filepath.Join(folder, filepath.Base(name))) {
		return true
	}
	real, err := filepath.EvalSymlinks(name)
	return err == nil && holds(outer, real)
}

func ownError(real string, own OwnFile) error {
	verb := "holds"
	if filepath.Base(real) == filepath.Base(own.Path) {
		verb = "is or holds"
	}
	text := fmt.Sprintf("%q is refused: it %s %s, which no sandbox may have; expose only the files or folders that are needed", cut(real, 300), verb, own.What)
	if own.Remedy != "" {
		text += ", or ask the person who runs this server to " + own.Remedy
	}
	return &ArgumentError{Argument: "host_path", Message: text + "."}
}
