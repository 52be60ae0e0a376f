package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// maxScan bounds how many names of a folder are looked at for secrets.
const maxScan = 20_000

// A hostFile is an open file or directory of the host that may be exposed.
type hostFile struct {
	file *os.File
	path string // where it really is
	dir  bool

	whole bool // a folder that cannot be looked through to its end is refused
}

// openHost opens what name asks for beneath one of the roots. Every step is
// made from the root's own descriptor, so that nothing beneath it, links
// included, leads elsewhere; what was checked is what is opened.
func openHost(roots []HostRoot, name string, mode sandbox.Mode) (*hostFile, error) {
	refuse := func(format string, args ...any) error {
		return &ArgumentError{Argument: "host_path", Message: fmt.Sprintf(format, args...)}
	}
	if strings.ContainsRune(name, 0) || !filepath.IsAbs(name) {
		return nil, refuse("host_path must be an absolute path of the host.")
	}
	if len(roots) == 0 {
		return nil, refuse("No host path may be exposed: expose.roots of the configuration is empty; the person who runs this server can add a folder there.")
	}
	root, rel := rootOf(roots, filepath.Clean(name))
	if root == nil {
		return nil, refuse("%q is outside the folders that may be exposed (expose.roots); ask the person who runs this server to add its folder.", cut(name, 300))
	}
	if mode == sandbox.ReadWrite && root.Mode != sandbox.ReadWrite {
		return nil, refuse("%q may only be exposed read-only; use mode ro.", cut(name, 300))
	}
	h, err := openBeneath(root.Path, rel)
	if err != nil {
		return nil, hostError(name, err)
	}
	if err := h.check(root.Path, mode); err != nil {
		return nil, errors.Join(err, h.file.Close())
	}
	return h, nil
}

// rootOf gives the innermost root that holds name, and the rest of the path.
func rootOf(roots []HostRoot, name string) (*HostRoot, string) {
	var best *HostRoot
	var rest string
	for i, r := range roots {
		rel, err := filepath.Rel(r.Path, name)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		if best == nil || len(r.Path) > len(best.Path) {
			best, rest = &roots[i], rel
		}
	}
	return best, rest
}

func openBeneath(root, rel string) (*hostFile, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()        //nolint:errcheck // opened for reading
	st, err := r.Stat(rel) // before the opening: a pipe would block it
	if err != nil {
		return nil, err
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := r.OpenFile(rel, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err != nil || !os.SameFile(st, now) {
		return nil, errors.Join(errSwapped, err, f.Close())
	}
	return &hostFile{file: f, path: realPath(f, filepath.Join(root, rel)), dir: now.IsDir()}, nil
}

var (
	errNotRegular = errors.New("not a regular file or directory")
	errSwapped    = errors.New("changed while it was being opened")
)

// hostError tells why a path cannot be opened, without telling more of the
// host than that.
func hostError(name string, err error) error {
	text := "%q cannot be opened; check the path and its permissions."
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text = "%q does not exist on the host; check the path."
	case errors.Is(err, errNotRegular):
		text = "%q is a pipe, socket or device; only regular files and directories can be exposed."
	case errors.Is(err, errSwapped):
		text = "%q changed while it was being opened; try again."
	case strings.Contains(err.Error(), "escapes"):
		text = "%q leads out of the folder that may be exposed (a link); name the real path."
	}
	return &ArgumentError{Argument: "host_path", Message: fmt.Sprintf(text, cut(name, 300))}
}

// check refuses secrets, files with more than one name, and folders that
// would give the sandbox a foothold on the host.
func (h *hostFile) check(root string, mode sandbox.Mode) error {
	rel, err := filepath.Rel(root, h.path)
	if err != nil || !filepath.IsLocal(rel) {
		return hostError(h.path, fmt.Errorf("path escapes: %w", fs.ErrPermission))
	}
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if secretName(part) || mode == sandbox.ReadWrite && footholdName(part) {
			return secretError(h.path, part, mode)
		}
	}
	if !h.dir {
		return h.checkLinks()
	}
	return h.scan(mode)
}

func secretError(where, name string, mode sandbox.Mode) error {
	why := "may hold secrets and is never exposed"
	if mode == sandbox.ReadWrite && !secretName(name) {
		why = "could be used to run code on the host and is never exposed read-write"
	}
	return &ArgumentError{Argument: "host_path", Message: fmt.Sprintf(
		"%q is refused: %s %s; copy what is needed to another place and expose that.", cut(where, 300), cut(name, 100), why)}
}

func (h *hostFile) checkLinks() error {
	st, err := h.file.Stat()
	if err != nil {
		return hostError(h.path, err)
	}
	if linkCount(st) > 1 {
		return &ArgumentError{Argument: "host_path", Message: fmt.Sprintf(
			"%q has more than one name (hard links), so it may belong elsewhere; expose a copy.", cut(h.path, 300))}
	}
	return nil
}

// scan looks through a folder for what must not be exposed.
func (h *hostFile) scan(mode sandbox.Mode) error {
	seen := 0
	err := fs.WalkDir(os.DirFS(h.path), ".", func(name string, d fs.DirEntry, err error) error {
		if seen++; seen > maxScan {
			if h.whole {
				return &ArgumentError{Argument: "host_path", Message: fmt.Sprintf(
					"%q holds more than %d names, too many to look through for secrets; name a smaller folder.", cut(h.path, 300), maxScan)}
			}
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir // what we cannot read, the sandbox will not read either
		}
		if base := filepath.Base(name); secretName(base) || d.Type()&fs.ModeSocket != 0 || mode == sandbox.ReadWrite && footholdName(base) {
			return secretError(filepath.Join(h.path, name), base, mode)
		}
		return nil
	})
	if refused, ok := errors.AsType[*ArgumentError](err); ok {
		return refused
	}
	return nil
}

// secretName: files that hold keys, tokens or passwords by convention.
func secretName(name string) bool {
	n := strings.ToLower(name)
	if slices.Contains([]string{
		".ssh", ".aws", ".gnupg", ".gcloud", ".azure", ".kube", ".docker", ".netrc", "_netrc", ".pgpass", ".git-credentials",
		".npmrc", ".pypirc", ".htpasswd", ".vault-token", "credentials", "credentials.json", "secrets.json", "secrets.yaml", "secrets.yml",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "docker.sock", "podman.sock", "containerd.sock", "shadow", "gshadow", ".env", ".envrc",
		"service-account.json", "application_default_credentials.json",
	}, n) {
		return true
	}
	if strings.HasPrefix(n, ".env.") && n != ".env.example" && n != ".env.sample" && n != ".env.template" {
		return true
	}
	switch filepath.Ext(n) {
	case ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".asc", ".gpg", ".sock":
		return true
	}
	return false
}

// footholdName: what the host runs or obeys when it finds it.
func footholdName(name string) bool {
	return slices.Contains([]string{
		".git", ".hg", ".svn", ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile",
		".vscode", ".idea", ".cursor", ".claude", ".mcp.json", ".gitconfig", ".gitmodules", ".husky", ".pre-commit-config.yaml", "crontab",
	}, strings.ToLower(name))
}
