package session

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

const keyBytes = 32

// LoadKey gives the key of handles that is kept in file, made when it is not
// there. Servers that start at once agree on one. A key that others can read
// is refused: who has it can make handles.
func LoadKey(file string) ([]byte, error) {
	key, err := readKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := makeKey(file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the key of session handles: %w", err)
	}
	return readKey(file)
}

func readKey(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the key of session handles: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the key of session handles: %w", err)
	}
	// Windows has no such modes; there the user's directory keeps others out.
	exposed := runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
	if !info.Mode().IsRegular() || exposed {
		return nil, fmt.Errorf("%w: run chmod 600 %s, or remove it to have a new one made (handles of earlier answers end with it)", ErrKeyExposed, file)
	}
	key := make([]byte, keyBytes+1)
	n, err := f.Read(key)
	if err != nil || n != keyBytes {
		return nil, fmt.Errorf("%s is not a key of session handles: remove it to have a new one made (handles of earlier answers end with it)", file)
	}
	return key[:n], nil
}

// makeKey writes a new key whole or not at all, and never over another.
func makeKey(file string) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the data directory, which sandboxes' users pass through
		return err
	}
	f, err := os.CreateTemp(dir, ".key-*") // its mode is 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the link below is what stays
	key := make([]byte, keyBytes)
	rand.Read(key)
	_, err = f.ReadFrom(bytes.NewReader(key))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), file)
}
