package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// A Machine answers what only the machine knows that sandboxes run on.
type Machine struct {
	// Stat looks at a path, as os.Stat does.
	Stat func(name string) (fs.FileInfo, error)
	// CheckTarget tells why a path inside a sandbox is no place for a mount.
	CheckTarget func(target string) error
}

// checkMachine reports what the configuration names and this machine lacks, or
// cannot give. What is at fault by itself already is not looked for.
func (l *loader) checkMachine(m Machine) {
	for i, root := range l.cfg.Expose.Roots {
		key := fmt.Sprintf("expose.roots[%d].path", i)
		if info, err := m.Stat(root.Path); err != nil || !info.IsDir() {
			l.check(key, false, root.Path+" is not a directory on this machine")
		}
	}
	for i, mount := range l.cfg.Expose.Mounts {
		key := fmt.Sprintf("expose.mounts[%d]", i)
		l.exists(m, key+".host", mount.Host)
		if err := m.CheckTarget(mount.Sandbox); err != nil {
			l.check(key+".sandbox", false, mount.Sandbox+": "+err.Error())
		}
	}
	if s := l.cfg.Server; s.Transport == "http" {
		l.exists(m, "server.tls_cert", s.TLSCert)
		l.exists(m, "server.tls_key", s.TLSKey)
	}
}

// exists checks that a path names something, where one is given.
func (l *loader) exists(m Machine, key, name string) {
	if name == "" {
		return
	}
	_, err := m.Stat(name)
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.check(key, false, name+" does not exist on this machine")
	case err != nil:
		l.check(key, false, name+" cannot be looked at: "+err.Error())
	}
}

// mountsOfFlags adds the mounts that flags asked for to those of the file.
func (l *loader) mountsOfFlags(mounts []Mount) {
	for _, mount := range mounts {
		l.origin[fmt.Sprintf("expose.mounts[%d]", len(l.cfg.Expose.Mounts))] = "--expose"
		l.cfg.Expose.Mounts = append(l.cfg.Expose.Mounts, mount)
	}
}

// absoluteFault says what is wrong with a host path that is not absolute.
func absoluteFault(host string) string {
	if strings.HasPrefix(host, "~") {
		return "must be an absolute path; ~ is not expanded"
	}
	return "must be an absolute path"
}
