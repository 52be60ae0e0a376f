package docker

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// A door is the unix socket at which one sandbox's supervisor knocks once.
// Its directory is mounted into the container; the secret, which the
// supervisor gets through its standard input, tells it from anyone else who
// can reach the socket.
type door struct {
	dir    string
	secret []byte
	l      *net.UnixListener
}

const (
	secretBytes = 32
	knockTime   = 5 * time.Second
	badKnocks   = 8
	socketPath  = 107 // the kernel's bound, without the final NUL
)

// openDoor makes the socket in a new directory beneath parent, which only
// this user can enter; anyone may use the socket itself, because the
// container's user is another one.
func openDoor(parent string) (_ *door, err error) {
	if err := ownDirectory(parent); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "s")
	if err != nil {
		return nil, fmt.Errorf("docker: make socket directory: %w", err)
	}
	d := &door{dir: dir, secret: make([]byte, secretBytes)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if _, err := rand.Read(d.secret); err != nil {
		return nil, fmt.Errorf("docker: make secret: %w", err)
	}
	path := filepath.Join(dir, channelFile)
	if len(path) > socketPath {
		return nil, fmt.Errorf("%w: %s", errLongPath, path)
	}
	if d.l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
		return nil, fmt.Errorf("docker: listen on socket: %w", err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil { //nolint:gosec // the parent is private
		return nil, fmt.Errorf("docker: open socket to the sandbox: %w", err)
	}
	return d, nil
}

// ownDirectory makes or verifies a directory that is this user's alone.
func ownDirectory(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("docker: make socket directory: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("docker: make socket directory: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByUs(info) {
		return fmt.Errorf("docker: %s is not a private directory of this user; remove it", path)
	}
	return nil
}

// accept waits for the supervisor, then shuts the door: the socket and its
// directory are gone whether or not it came.
func (d *door) accept(ctx context.Context) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = d.l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for range badKnocks {
		conn, err := d.l.Accept()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, errors.Join(err, d.close())
		}
		if d.recognise(ctx, conn) {
			if err := d.close(); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		}
		_ = conn.Close()
	}
	return nil, errors.Join(errImpostor, d.close())
}

func (d *door) recognise(ctx context.Context, conn net.Conn) bool {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	given := make([]byte, secretBytes)
	if conn.SetReadDeadline(time.Now().Add(knockTime)) != nil {
		return false
	}
	if _, err := io.ReadFull(conn, given); err != nil {
		return false
	}
	return subtle.ConstantTimeCompare(given, d.secret) == 1 && conn.SetReadDeadline(time.Time{}) == nil
}

// close is idempotent. The directory goes although the container still has
// it mounted: it is empty by then.
func (d *door) close() error {
	var err error
	if d.l != nil {
		if err = d.l.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}
