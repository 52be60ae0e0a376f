//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/usernet"
)

// The process that carries a sandbox's network is this program under another
// name. Its last argument is the sandbox's id, as with gVisor's own parts.
const (
	networkName = "biocage-network"
	networkLink = 3 // its end of the link
	// lastWords is how much of what a failed process said is told.
	lastWords = 4 << 10
)

// An uplink is a sandbox's way out: a process that turns its packets into
// ordinary connections. It ends with its lease, which ends with this process.
type uplink struct {
	process *os.Process
	lease   *os.File
	words   *os.File // what it says, which is why it fails
	guest   *os.File // the sandbox's end of the link; closed by handOver

	ended chan struct{} // closed when the process is gone
	last  string        // its last words; set before ended is closed
}

// startUplink starts the process. As root it runs as the sandbox's own host
// user, who has no right to anything.
func startUplink(stateDir, id string, who identity) (*uplink, error) {
	guest, theirs, err := usernet.Pair()
	if err != nil {
		return nil, err
	}
	u := &uplink{guest: guest, ended: make(chan struct{})}
	err = u.spawn(theirs, []string{networkName, "--root=" + stateDir, id}, who)
	if err := errors.Join(err, theirs.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start the sandbox's network: %w", err), u.guest.Close())
	}
	return u, nil
}

func (u *uplink) spawn(theirs *os.File, argv []string, who identity) error {
	lease, mine, err := os.Pipe()
	if err != nil {
		return err
	}
	words, theirWords, err := os.Pipe()
	if err != nil {
		return errors.Join(err, lease.Close(), mine.Close())
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, lease.Close(), mine.Close(), words.Close(), theirWords.Close())
	}
	attr := &os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{lease, null, theirWords, theirs}, Sys: &syscall.SysProcAttr{Setsid: true}}
	if who.pair {
		attr.Sys.Credential = &syscall.Credential{Uid: who.hostUID, Gid: who.hostGID}
	}
	u.process, err = os.StartProcess(specutils.ExePath, argv, attr)
	err = errors.Join(err, lease.Close(), theirWords.Close(), null.Close())
	if err != nil {
		return errors.Join(err, mine.Close(), words.Close())
	}
	u.lease, u.words = mine, words
	return nil
}

// watch waits for the process in a goroutine, which ends with it.
func (u *uplink) watch() {
	go func() {
		said, readErr := io.ReadAll(io.LimitReader(u.words, lastWords))
		_, drainErr := io.Copy(io.Discard, u.words)
		state, waitErr := u.process.Wait()
		u.last = strings.TrimSpace(string(said))
		if err := errors.Join(readErr, drainErr, waitErr, u.words.Close()); err != nil {
			u.last += " (" + err.Error() + ")"
		}
		if u.last == "" {
			u.last = state.String()
		}
		close(u.ended)
	}()
}

// close ends the process and waits for it; watch must have been called.
func (u *uplink) close() error {
	err := u.process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	err = errors.Join(err, u.lease.Close())
	_ = u.guest.Close() // closed already, but for a start that failed
	<-u.ended
	return err
}

// resolvFile is where a bundle keeps the sandbox's resolv.conf.
func (b *bundle) resolvFile() string { return filepath.Join(b.dir, "resolv.conf") }

// writeResolv tells the sandbox whom to ask for names.
func (b *bundle) writeResolv() error {
	if b.spec.Network != sandbox.NetworkFull {
		return nil
	}
	return writeOpen(b.resolvFile(), []byte(usernet.ResolvConf(len(usernet.HostResolvers()))))
}
