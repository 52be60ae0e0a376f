package session

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/biocypher/biocage-mcp/sandbox"
)

const (
	maxNames  = 100  // names that are offered
	maxLooked = 5000 // names of a folder that are looked at
)

// HostNames offers host paths that begin with prefix and that Expose would
// take: the roots, the files beneath them, and folders that lead to some. It
// fails with nothing to offer.
func (m *Manager) HostNames(prefix string) []string {
	var names []string
	for _, root := range m.opts.Roots {
		if whole := root.Path + "/"; strings.HasPrefix(whole, prefix) {
			names = append(names, whole)
		}
	}
	dir, base := filepath.Split(prefix)
	if root, rel := rootOf(m.opts.Roots, filepath.Clean(dir)); filepath.IsAbs(prefix) && root != nil && !leadsToSecret(rel) {
		names = append(names, root.names(rel, dir, base)...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNames)]
}

func leadsToSecret(rel string) bool {
	return slices.ContainsFunc(strings.Split(rel, string(filepath.Separator)), secretName)
}

// names gives the names in the folder rel, shown as dir, that begin with base.
func (r *HostRoot) names(rel, dir, base string) []string {
	root, err := os.OpenRoot(r.Path)
	if err != nil {
		return nil
	}
	defer root.Close() //nolint:errcheck // opened for reading
	var names []string
	for _, name := range list(root, rel) {
		if !strings.HasPrefix(name, base) || base == "" && strings.HasPrefix(name, ".") || secretName(name) {
			continue
		}
		if end, ok := r.offer(root, filepath.Join(rel, name)); ok {
			names = append(names, dir+name+end)
		}
		if len(names) == maxNames {
			break
		}
	}
	return names
}

// list gives the first names of a folder, in order.
func list(root *os.Root, rel string) []string {
	if st, err := root.Stat(rel); err != nil || !st.IsDir() {
		return nil
	}
	folder, err := root.Open(rel)
	if err != nil {
		return nil
	}
	defer folder.Close() //nolint:errcheck // opened for reading
	names, err := folder.Readdirnames(maxLooked)
	if err != nil { // nothing in it, too
		return nil
	}
	slices.Sort(names)
	return names
}

// offer tells whether a name may be offered, and what is put behind it.
func (r *HostRoot) offer(root *os.Root, rel string) (end string, ok bool) {
	st, err := root.Stat(rel)
	switch {
	case err != nil: // it leads elsewhere, or has gone
		return "", false
	case st.IsDir():
		return "/", true
	}
	return "", r.takes(rel)
}

// takes tells whether a file may be exposed.
func (r *HostRoot) takes(rel string) bool {
	h, err := openBeneath(r.Path, rel)
	if err != nil {
		return false
	}
	defer h.file.Close() //nolint:errcheck // opened for reading
	return h.check(r.Path, sandbox.ReadOnly) == nil
}
