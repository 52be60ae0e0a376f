package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/biocypher/biocage-mcp/pyagent"
	"github.com/biocypher/biocage-mcp/sandbox"
)

// maxCopyFiles bounds an exposure by copying; its bytes are bounded by the
// sandbox's disk.
const maxCopyFiles = 10_000

// An exposure is one host path that the session was given. It is made again
// when the sandbox has to be replaced.
type exposure struct {
	Exposure
	mode sandbox.Mode
	at   string // where it is attached when SandboxPath is a link to it, else ""

	root    string // the announced root that it lies beneath, else ""
	allowed string // where it really is, if the person allowed it, else ""
}

// Expose makes a host file or directory appear in the session without
// touching its state.
func (m *Manager) Expose(ctx context.Context, ref Ref, req ExposeRequest) (res Exposure, err error) {
	host, root, allowed, err := m.openFor(ref, req)
	if err != nil {
		return Exposure{}, err
	}
	defer host.file.Close() //nolint:errcheck // opened for reading
	target, err := exposeTarget(req)
	if err != nil {
		return Exposure{}, err
	}
	s, err := m.enter(ctx, ref, begins)
	if err != nil {
		return Exposure{}, err
	}
	defer func() { s.leave(ctx, err) }()
	k, err := s.kernel(ctx)
	if err != nil {
		return Exposure{}, err
	}
	base, err := s.base(ctx)
	if err != nil {
		return Exposure{}, err
	}
	e := exposure{Exposure: Exposure{HostPath: req.HostPath, SandboxPath: target, Mode: req.Mode.String()}, mode: req.Mode, at: s.attachedAt(target), root: root, allowed: allowed}
	if err := s.attach(ctx, base, k, host, &e); err != nil {
		return Exposure{}, s.exposeError(k, target, err)
	}
	s.remember(e)
	if req.Allowed != nil && req.Allowed.Session && allowed != "" {
		s.grant(allowed)
	}
	e.Session, e.Begun = s.handle, s.begun
	return e.Exposure, nil
}

// exposeTarget gives the place inside the sandbox, checked.
func exposeTarget(req ExposeRequest) (string, error) {
	target := req.SandboxPath
	if target == "" {
		target = "/data/" + filepath.Base(filepath.Clean(req.HostPath))
	}
	if !path.IsAbs(target) {
		target = path.Join(sandbox.WorkDir, target)
	}
	places := strings.Join(sandbox.LiveRoots(), ", ") + ", " + sandbox.WorkDir + " or " + sandbox.TempDir
	if err := sandbox.CheckTarget(target); err != nil {
		return "", &ArgumentError{Argument: "sandbox_path", Message: fmt.Sprintf("sandbox_path %s; choose a place beneath %s.", err, places)}
	}
	if !CanExpose(target) {
		return "", &ArgumentError{Argument: "sandbox_path", Message: fmt.Sprintf("sandbox_path must be beneath %s.", places)}
	}
	return target, nil
}

// CanExpose tells whether host files can be made to appear at target while a
// sandbox runs.
func CanExpose(target string) bool { return liveRoot(target) != "" || underWork(target) }

// liveRoot gives the live root that target lies beneath, or "".
func liveRoot(target string) string {
	for _, root := range sandbox.LiveRoots() {
		if strings.HasPrefix(target, root+"/") {
			return root
		}
	}
	return ""
}

// attach binds the host file into the sandbox where the engine can, and
// copies it where it cannot.
func (s *session) attach(ctx context.Context, base Base, k *kernel, host *hostFile, e *exposure) error {
	live, ok := k.sandbox.(sandbox.Exposer)
	if !ok || !base.Engine.Capabilities().LiveExpose {
		if e.mode == sandbox.ReadWrite {
			return &ArgumentError{Argument: "mode", Message: "This engine can only copy host files here, and a copy cannot be read-write; use mode ro and fetch results with file_read."}
		}
		return k.copyIn(ctx, base.Spec.Limits.DiskBytes, host, e.SandboxPath)
	}
	e.Live = true
	if liveRoot(e.SandboxPath) != "" {
		return live.Expose(ctx, host.file, e.SandboxPath, e.mode)
	}
	// Below the workspace nothing can be mounted safely, so a link there
	// leads to a place that only the engine can change.
	again := e.at != ""
	if !again {
		s.mu.Lock()
		e.at = "/data/.exposed/" + strconv.Itoa(len(s.exposures)) + "/" + path.Base(e.SandboxPath)
		s.mu.Unlock()
	}
	if err := live.Expose(ctx, host.file, e.at, e.mode); err != nil {
		return err
	}
	err := k.conn.MakeLink(ctx, e.SandboxPath, e.at)
	if again && isThere(err) {
		return nil
	}
	return err
}

// attachedAt tells where an exposure at the same place is attached, which may
// then be made again, or "".
func (s *session) attachedAt(target string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.exposures {
		if e.SandboxPath == target {
			return e.at
		}
	}
	return ""
}

func isThere(err error) bool {
	var refused *pyagent.RequestError
	return errors.As(err, &refused) && refused.Code == "exists"
}

// remember keeps e, in place of an earlier one at the same place.
func (s *session) remember(e exposure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, old := range s.exposures {
		if old.SandboxPath == e.SandboxPath {
			s.exposures[i] = e
			return
		}
	}
	s.exposures = append(s.exposures, e)
}

// restoreExposures gives a new kernel what the session had, and at the
// session's start the mounts of the configuration.
func (s *session) restoreExposures(ctx context.Context, base Base, k *kernel) error {
	s.mu.Lock()
	all := append([]exposure(nil), s.exposures...)
	fresh := len(all) == 0
	s.mu.Unlock()
	if fresh {
		for _, req := range base.Mounts {
			all = append(all, exposure{
				Exposure: Exposure{HostPath: req.HostPath, SandboxPath: req.SandboxPath, Mode: req.Mode.String()}, mode: req.Mode,
			})
		}
	}
	for _, e := range all {
		host, err := s.reopen(base, e)
		if err != nil {
			return fmt.Errorf("expose %s again: %w", e.HostPath, err)
		}
		err = errors.Join(s.attach(ctx, base, k, host, &e), host.file.Close())
		if err != nil {
			return fmt.Errorf("expose %s again: %w", e.HostPath, err)
		}
		s.remember(e)
	}
	return nil
}

// reopen opens the host side of an exposure: a mount of the configuration
// needs no root around it, because the same person wrote both.
func (s *session) reopen(base Base, e exposure) (*hostFile, error) {
	for _, m := range base.Mounts {
		if m.HostPath == e.HostPath && m.SandboxPath == e.SandboxPath {
			return openBeneath(filepath.Dir(e.HostPath), filepath.Base(e.HostPath)) // a file or a directory
		}
	}
	switch {
	case e.allowed != "":
		return s.m.openOutside(Ref{}, e.allowed, &Allowance{Path: e.allowed})
	case e.root != "":
		real, err := filepath.EvalSymlinks(e.HostPath)
		if err != nil {
			return nil, hostError(e.HostPath, err)
		}
		return s.m.openRoots([]HostRoot{{Path: e.root}}, real, e.mode)
	}
	return s.m.openRoots(s.m.opts.Roots, e.HostPath, e.mode)
}

// relink makes the links of exposures again after a reset has emptied the
// workspace.
func (s *session) relink(ctx context.Context, k *kernel) error {
	s.mu.Lock()
	all := append([]exposure(nil), s.exposures...)
	s.mu.Unlock()
	for _, e := range all {
		if e.at == "" {
			continue
		}
		if err := k.conn.MakeLink(ctx, e.SandboxPath, e.at); err != nil && !isThere(err) {
			return err
		}
	}
	return nil
}

// copyIn copies a file or a folder through the agent, within bounds.
func (k *kernel) copyIn(ctx context.Context, budget int64, host *hostFile, target string) error {
	if !host.dir {
		return k.copyFile(ctx, &budget, host.file, target)
	}
	root, err := os.OpenRoot(host.path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	files := 0
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if files++; files > maxCopyFiles {
			return &ArgumentError{Argument: "host_path", Message: fmt.Sprintf("The folder holds more than %d files, too many to copy; expose a part of it.", maxCopyFiles)}
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(k.copyFile(ctx, &budget, f, path.Join(target, name)), f.Close())
	})
}

func (k *kernel) copyFile(ctx context.Context, budget *int64, f *os.File, target string) error {
	buf := make([]byte, chunk)
	var at int64
	for mode := "create"; ; mode = "at" {
		n, err := io.ReadFull(f, buf)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return errors.Join(err, k.abort(ctx, target))
		}
		if *budget -= int64(n); *budget < 0 {
			return errors.Join(&ArgumentError{Argument: "host_path", Message: "The files are larger than the sandbox's disk (sandbox.disk), and this engine can only copy them here; expose less."}, k.abort(ctx, target))
		}
		req := pyagent.WriteFileRequest{Path: target, Mode: mode, Offset: at, More: !last}
		if _, err := k.conn.WriteFile(ctx, req, buf[:n]); err != nil {
			return errors.Join(err, k.abort(ctx, target))
		}
		if at += int64(n); last {
			return nil
		}
	}
}

// exposeError puts an engine's or the agent's failure into one sentence.
func (s *session) exposeError(k *kernel, target string, err error) error {
	if argument, ok := errors.AsType[*ArgumentError](err); ok {
		return argument
	}
	var refused *pyagent.RequestError
	if errors.As(err, &refused) || errors.Is(err, pyagent.ErrLost) {
		return s.fileError(k, target, err)
	}
	if errors.Is(err, fs.ErrExist) {
		return &ArgumentError{Argument: "sandbox_path", Message: fmt.Sprintf("Something is exposed at %q already; choose another sandbox_path.", cut(target, 200))}
	}
	return &SandboxError{Message: "The host path could not be attached to the sandbox; the server's log has the reason.", Err: err}
}
