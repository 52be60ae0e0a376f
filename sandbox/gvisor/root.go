//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// mountPoints must be in every environment, because a read-only root cannot
// get them later.
func mountPoints() []string {
	return append([]string{"/proc", "/sys", "/dev", sandbox.TempDir, sandbox.WorkDir, sandbox.AgentDir}, sandbox.LiveRoots()...)
}

// checkRoot proves that the environment can be a sandbox's root, and makes
// mount points that it lacks where this user may.
func checkRoot(spec sandbox.Spec) error {
	dir := spec.Root.Dir
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a directory; build the environment with biocage env build: %w", dir, sandbox.ErrRootMissing)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the environment: %w: %w", sandbox.ErrRootMissing, err)
	}
	defer func() { _ = root.Close() }()
	for _, point := range mountPoints() {
		if err := makePoint(root, strings.TrimPrefix(point, "/")); err != nil {
			return fmt.Errorf("the environment %s lacks the directory %s, and it cannot be made; build the environment again with biocage env build: %w: %w",
				dir, point, sandbox.ErrRootMissing, err)
		}
	}
	if spec.Network == sandbox.NetworkFull {
		if err := makeFile(root, strings.TrimPrefix(resolvConf, "/")); err != nil {
			return fmt.Errorf("the environment %s lacks an ordinary file %s, and it cannot be made; build the environment again with biocage env build: %w: %w",
				dir, resolvConf, sandbox.ErrRootMissing, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := reachable(dir); err != nil {
			return err
		}
	}
	return checkTargets(root, spec.Mounts)
}

func makePoint(root *os.Root, name string) error {
	info, err := root.Stat(name)
	if err == nil && !info.IsDir() {
		return errors.New("something else has its name")
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.MkdirAll(name, 0o755)
}

// resolvConf is covered by the sandbox's own where it has a network.
const resolvConf = "/etc/resolv.conf"

func makeFile(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return errors.New("something else has its name")
	case err == nil:
		return nil
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// reachable: a sandbox's users are nobody on the host, so every directory on
// the way must let others through.
func reachable(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("reach what a sandbox starts from: %w", err)
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("sandboxes cannot reach %s: %s keeps others out; choose another place or run chmod o+x %s: %w",
				dir, at, at, sandbox.ErrRootMissing)
		}
		if at == "/" {
			return nil
		}
	}
}

// checkTargets refuses mounts for which no mount point can be made.
func checkTargets(root *os.Root, mounts []sandbox.Mount) error {
	var errs []error
	for i, m := range mounts {
		if mountable(root, m.Sandbox) {
			continue
		}
		errs = append(errs, &sandbox.SpecError{
			Field:  fmt.Sprintf("Mounts[%d].Sandbox", i),
			Reason: fmt.Sprintf("%s is not in the environment, which is read-only; use a path beneath /data", m.Sandbox),
		})
	}
	return errors.Join(errs...)
}

func mountable(root *os.Root, target string) bool {
	for _, made := range append(sandbox.LiveRoots(), sandbox.WorkDir, sandbox.TempDir) {
		if beneath(target, made) {
			return true
		}
	}
	_, err := root.Stat(strings.TrimPrefix(target, "/"))
	return err == nil
}
