package hostmount

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A traveller is one operating system thread that visits sandboxes' mount
// namespaces and comes home after each visit. It never ends and serves nothing
// else: it shares no root and working directory with the other threads any
// more, and ending a thread would make the kernel end every child process that
// the thread has started with a parent-death signal. The gVisor engine's
// sandboxes are such children.
type traveller struct {
	start sync.Once
	jobs  chan func()
}

//nolint:gochecknoglobals // threads belong to the process, and this one must outlive every owner
var abroad traveller

// visit runs f inside the mount namespace; root and working directory are that
// namespace's root.
func (t *traveller) visit(namespace *os.File, f func() error) error {
	t.start.Do(func() {
		t.jobs = make(chan func())
		go t.live()
	})
	result := make(chan error, 1)
	t.jobs <- func() {
		home, err := enter(namespace)
		if err != nil {
			result <- err
			return
		}
		err = f()
		result <- errors.Join(err, leave(home))
	}
	return <-result
}

// live serves on a thread of its own, but never on the process's first one,
// whose namespaces are what /proc/self shows to everyone.
func (t *traveller) live() {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		moved := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(moved)
			t.serve()
		}()
		<-moved // holding the first thread until the other goroutine has another
		runtime.UnlockOSThread()
		return
	}
	t.serve()
}

func (t *traveller) serve() {
	for job := range t.jobs {
		job()
	}
}

// enter moves the calling thread into the mount namespace and returns the one
// that it came from.
func enter(namespace *os.File) (home *os.File, err error) {
	// Threads share root and working directory until they part.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("part from the other threads: %w", err)
	}
	home, err = os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return nil, fmt.Errorf("remember the host's mount namespace: %w", err)
	}
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
		return nil, errors.Join(fmt.Errorf("enter the sandbox's mount namespace: %w", err), home.Close())
	}
	unix.Umask(0)
	return home, nil
}

func leave(home *os.File) error {
	err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNS)
	if err != nil {
		err = fmt.Errorf("leave the sandbox's mount namespace: %w", err)
	}
	return errors.Join(err, home.Close())
}
