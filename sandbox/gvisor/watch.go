//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// guardInterval is how often a sandbox's memory is looked at. In this time a
// sandbox can touch some hundred MiB.
const guardInterval = 200 * time.Millisecond

// watch starts the box's goroutines; all end when the sentry ends.
func (b *box) watch() {
	ended, unguarded, unlinked := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(unlinked)
		if b.uplink != nil {
			b.keepLinked(ended)
		}
	}()
	go func() {
		defer close(unguarded)
		if b.group == nil {
			b.guard(ended)
		}
	}()
	go func() {
		b.await()
		close(ended)
		<-unguarded
		<-unlinked
		b.finish()
	}()
}

// await blocks until the sentry has ended, in Go's poller and not in a thread.
func (b *box) await() {
	raw, err := b.pidfd.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return err == nil && n > 0
		})
	}
	if err != nil {
		b.engine.log.Error("cannot wait for a sandbox", "sandbox", b.id, "error", err)
	}
}

// finish tells how the sandbox ended, then removes what it was made of.
func (b *box) finish() {
	closing := b.closing.Load()
	b.exit = b.readExit(closing)
	close(b.done)
	b.goneErr = b.remove()
	if b.goneErr != nil {
		b.engine.log.Error("a sandbox left something behind", "sandbox", b.id, "error", b.goneErr)
	}
	b.engine.forget(b)
	// gVisor forgets the descriptors by which Go holds its two processes; only
	// the collector closes them.
	runtime.GC()
	close(b.gone)
}

func (b *box) readExit(closing bool) sandbox.Exit {
	exit := sandbox.Exit{Code: -1, Closed: closing}
	status, err := b.collect()
	switch {
	case err != nil:
		exit.Reason = "its end could not be read: " + err.Error()
	case status.Signaled():
		exit.Code = 128 + int(status.Signal())
	default:
		exit.Code = status.ExitStatus()
	}
	if b.overdose.Load() || !closing && b.oomKills() > 0 {
		exit.OOMKilled = true
		exit.Reason = "it used more memory than its limit"
	}
	if b.cut.Load() {
		exit.Reason = "the process that carries its network ended: " + b.uplink.last
	}
	if exit.Reason == "" && !closing && exit.Code > 128 {
		exit.Reason = fmt.Sprintf("it was killed by signal %d", exit.Code-128)
	}
	return exit
}

// collect gives the status of a sentry that has ended. gVisor would first ask
// the sentry at its socket, for ever when that is still open in another process
// that was just being made; without the socket it asks the system.
func (b *box) collect() (unix.WaitStatus, error) {
	if path := b.kernel.GetControlSocketPath(); path != "" {
		if err := os.Remove(path); err != nil {
			b.engine.log.Warn("the socket of a sandbox that ended stays", "sandbox", b.id, "error", err)
		}
	}
	return b.kernel.Wait(b.id)
}

func (b *box) oomKills() int64 {
	if b.group == nil {
		return 0
	}
	kills, err := b.group.oomKills()
	if err != nil {
		return 0
	}
	return kills
}

func (b *box) remove() error {
	errs := []error{b.cont.Destroy(), b.closeStream(), b.pidfd.Close()}
	if b.uplink != nil {
		errs = append(errs, b.uplink.close())
	}
	if b.group != nil {
		errs = append(errs, b.group.remove())
	}
	return errors.Join(append(errs, os.RemoveAll(b.bundle.dir))...)
}

// closeStream: its user may have closed it before.
func (b *box) closeStream() error {
	if err := b.stream.Close(); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// guard ends the sandbox when its memory is beyond the limit, where no control
// group holds it.
func (b *box) guard(ended <-chan struct{}) {
	ticker := time.NewTicker(guardInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		b.measure()
		if b.usage.Load() > hardMemory(b.bundle.spec.Limits) {
			b.killForMemory()
			return
		}
	}
}

// keepLinked ends the sandbox when its network has ended: connections that
// never answer again would look like everybody else's fault.
func (b *box) keepLinked(ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-b.uplink.ended:
	}
	b.cut.Store(true)
	if err := b.kill(); err != nil {
		b.engine.log.Error("cannot end a sandbox that lost its network", "sandbox", b.id, "error", err)
	}
}

// measure asks the sandbox's kernel for its memory. While that ends it does
// not answer, and the last number stays.
func (b *box) measure() {
	if usage, err := b.kernel.Usage(false); err == nil {
		b.usage.Store(int64(usage.Total))
	}
}

func (b *box) killForMemory() {
	b.overdose.Store(true)
	if err := b.kill(); err != nil {
		b.engine.log.Error("cannot end a sandbox that used too much memory", "sandbox", b.id, "error", err)
	}
}
