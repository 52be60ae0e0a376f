//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/config"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Check's sandbox runs this very program, which leaves at once with probeExit.
const (
	probePath  = "/data/biocage-probe"
	probeExit  = 42
	probeLimit = 20 * time.Second
)

// checkCache remembers that the machine works; a failure is looked at again.
type checkCache struct {
	turn chan struct{} // one Check at a time
	ok   bool          // guarded by turn
}

// Check implements sandbox.Engine: it runs a sandbox and sees it through.
func (e *Engine) Check(ctx context.Context) error {
	select {
	case e.check.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("check gVisor: %w", context.Cause(ctx))
	}
	defer func() { <-e.check.turn }()
	if e.check.ok {
		return nil
	}
	if err := enoughFiles(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := e.probe(ctx); err != nil {
		return &sandbox.FaultError{Class: sandbox.ErrUnavailable, Text: remedy(), Err: err}
	}
	e.check.ok = true
	return nil
}

// enoughFiles tells whether this process, and so gVisor's, which inherit its
// limits, may open as many files as the libraries in a sandbox need. Only the
// hard limit counts: Go programs raise the soft one themselves.
func enoughFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("look at the limit of open files: %w", err)
	}
	return filesSuffice(limit.Max)
}

func filesSuffice(most uint64) error {
	if most >= openFiles {
		return nil
	}
	text := fmt.Sprintf("this process may have %d open files, too few for gVisor; raise its limit to %d or more (ulimit -n %d, or LimitNOFILE=%d for systemd)",
		most, openFiles, openFiles, openFiles)
	return &sandbox.FaultError{Class: sandbox.ErrUnavailable, Text: text}
}

func (e *Engine) probe(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	root := filepath.Join(e.inst.dir, "probe")
	for _, point := range mountPoints() {
		if err := makeOpen(filepath.Join(root, point)); err != nil {
			return err
		}
	}
	box, err := e.Create(ctx, sandbox.Spec{
		Root: sandbox.Root{Dir: root}, Session: "check", Command: []string{probePath}, Agent: root,
		// A Go program reserves much address space that it never touches.
		Limits: sandbox.Limits{MemoryBytes: 4 << 30, CPUs: 1, PIDs: 64, DiskBytes: 1 << 20},
		Mounts: []sandbox.Mount{{Host: exe, Sandbox: probePath}},
	})
	if err != nil {
		return err
	}
	select {
	case <-box.Done():
	case <-ctx.Done():
	}
	ended := ctx.Err() == nil
	closeErr := box.Close(context.WithoutCancel(ctx))
	switch {
	case !ended:
		return errors.Join(fmt.Errorf("a sandbox started but did not run: %w", context.Cause(ctx)), closeErr)
	case box.Exit().Code != probeExit:
		return errors.Join(fmt.Errorf("a sandbox started but ended with %+v", box.Exit()), closeErr)
	}
	return closeErr
}

// remedy says what is most likely wrong and what to do about it.
func remedy() string {
	exe, err := os.Stat("/proc/self/exe")
	switch {
	case config.CgoEnabled:
		return "the program was built with cgo, and gVisor starts it where no shared library is; build it with CGO_ENABLED=0"
	case !hasPidfd():
		return "the kernel is too old; use Linux 5.10 or newer"
	case setting("/proc/sys/user/max_user_namespaces") == "0":
		return "user namespaces are switched off; run sysctl user.max_user_namespaces=10000"
	case os.Geteuid() != 0:
		return ordinaryRemedy()
	case err == nil && exe.Mode().Perm()&0o005 != 0o005:
		return "other users must be able to read and execute the program; run chmod o+rx on it"
	case inContainer():
		return "it seems to be inside a container; start that with --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt systempaths=unconfined --security-opt apparmor=unconfined"
	}
	return "this root lacks rights (CAP_SYS_ADMIN) or a seccomp filter forbids namespaces; give it the rights or use the docker engine"
}

func ordinaryRemedy() string {
	switch {
	case setting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "ordinary users may not make user namespaces; run sysctl kernel.unprivileged_userns_clone=1, or run biocage as root"
	case setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor keeps ordinary users from making user namespaces; allow biocage in a profile (userns,) or run sysctl kernel.apparmor_restrict_unprivileged_userns=0"
	case inContainer():
		return "it seems to be inside a container as an ordinary user, where gVisor cannot run; run it as root or use the docker engine"
	}
	return "gVisor's processes of an ordinary user do not start here; run biocage as root or use the docker engine"
}

func hasPidfd() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_NONBLOCK)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

func setting(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}
