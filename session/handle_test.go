package session

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestHandles(t *testing.T) {
	m := minter{key: []byte("a key")}
	seen := map[string]bool{}
	for range 1000 {
		h := m.mint("alice")
		if seen[h] || len(h) != 44 || !m.made(h, "alice") {
			t.Fatalf("handle %q: seen %t, known %t", h, seen[h], m.made(h, "alice"))
		}
		seen[h] = true
	}
	h := m.mint("alice")
	for i := range len(h) {
		for _, c := range []byte("a2_=Z\x00") {
			if other := h[:i] + string(c) + h[i+1:]; other != h && m.made(other, "alice") {
				t.Errorf("%q is taken for %q", other, h)
			}
		}
	}
	for name, ok := range map[string]bool{
		"another principal":  m.made(h, "bob"),
		"nobody":             m.made(h, ""),
		"a longer principal": m.made(h, "alice "),
		"another key":        minter{key: []byte("b key")}.made(h, "alice"),
		"upper case":         m.made(strings.ToUpper(h), "alice"),
		"a longer one":       m.made(h+"a", "alice"),
		"no prefix":          m.made(strings.TrimPrefix(h, handlePrefix), "alice"),
		"nothing":            m.made("", "alice"),
	} {
		if ok {
			t.Errorf("%s is taken for the handle's own", name)
		}
	}
}

func FuzzHandle(f *testing.F) {
	m := minter{key: []byte("a key")}
	good := m.handle(make([]byte, randomBytes), "alice") // the same in every process
	for _, seed := range []string{good, "", "sbx_", "work", strings.ToUpper(good), good[:len(good)-1], handlePrefix + strings.Repeat("a", 40), "a\x00b", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text != good && m.made(text, "alice") {
			t.Errorf("%q was never made", text)
		}
		if m.made(text, "bob") {
			t.Errorf("%q was never made for bob", text)
		}
		if isName(text) && (IsHandle(text) || len(text) > maxName || strings.ContainsAny(text, "_/ .\x00")) {
			t.Errorf("%q is no name", text)
		}
	})
}

func TestLoadKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data", "handle.key")
	keys := make([][]byte, 20)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := LoadKey(file)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for _, key := range keys {
		if len(key) != keyBytes || !bytes.Equal(key, keys[0]) {
			t.Errorf("keys %x and %x of one file", key, keys[0])
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("beside the key: %v, %v", left, err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(file); !errors.Is(err, ErrKeyExposed) || !strings.Contains(err.Error(), "chmod 600 "+file) {
		t.Errorf("a key that others can read: %v", err)
	}
	for _, wrong := range [][]byte{nil, []byte("short"), bytes.Repeat([]byte("x"), keyBytes+1)} {
		other := filepath.Join(t.TempDir(), "handle.key")
		if err := os.WriteFile(other, wrong, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKey(other); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("a key of %d bytes: %v", len(wrong), err)
		}
	}
	if _, err := LoadKey("/proc/no/handle.key"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a place that cannot be written: %v", err)
	}
}
