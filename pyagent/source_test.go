package pyagent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	held, err := Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, second := held.Dir, again.Dir
	if err := errors.Join(held.Close(), again.Close()); err != nil || second != first {
		t.Errorf("a second install: %q, %v; want %q again", second, err, first)
	}
	installed, err := os.ReadFile(filepath.Join(first, "biocage_agent_main.py"))
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := fs.ReadFile(source, "biocage_agent_main.py")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(embedded), string(installed)); diff != "" {
		t.Errorf("installed file differs (-embedded +installed):\n%s", diff)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	st, err := os.Stat(filepath.Join(first, "biocage_agent"))
	if err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("the sandbox's user cannot enter the folder: %v, %v", st.Mode(), err)
	}
}

// What nobody holds and nobody used for long is removed, and nothing else.
func TestClean(t *testing.T) {
	dir := t.TempDir()
	mine, err := Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * unusedFor)
	for name, age := range map[string]time.Time{
		"agent-held": old, "agent-unused": old, "agent-young": time.Now(), ".new-left": old, ".new-young": time.Now(), "other": old,
	} {
		if err := os.MkdirAll(filepath.Join(dir, name, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), age, age); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "agent-file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	another, err := hold(filepath.Join(dir, "agent-held")) // by a server of another version
	if err != nil || another == nil {
		t.Fatal(another, err)
	}
	for _, name := range []string{filepath.Base(mine.Dir), "agent-held", "agent-file"} {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	clean := func(want ...string) {
		t.Helper()
		if err := Clean(dir); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, entry := range entries {
			got = append(got, entry.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	clean(".new-young", filepath.Base(mine.Dir), "agent-file", "agent-held", "agent-young", "other")
	if err := errors.Join(mine.Close(), another.Close()); err != nil {
		t.Fatal(err)
	}
	clean(".new-young", "agent-file", "agent-young", "other")
	if mine, err = Install(dir); err != nil || !isThere(mine.Dir) || mine.Close() != nil {
		t.Errorf("installed anew: %v", err)
	}
	if err := Clean(filepath.Join(dir, "nothing")); err == nil {
		t.Error("a folder that is not there was cleaned")
	}
}

// Whatever is removed meanwhile, an installed source is there until its Close.
func TestInstallWhileOthersClean(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * unusedFor)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if entries, err := filepath.Glob(filepath.Join(dir, "agent-*")); err == nil && len(entries) > 0 {
				_ = os.Chtimes(entries[0], old, old) // gone already, perhaps
			}
			_ = Clean(dir) // what another cleaner took first is told
		}
	})
	done := 0
	for give := time.Now().Add(time.Minute); done < 100 && time.Now().Before(give); {
		installed, err := Install(dir)
		if err != nil {
			continue // removed again and again, by who does nothing else
		}
		done++
		if _, err := os.Stat(filepath.Join(installed.Dir, "biocage_agent_main.py")); err != nil {
			t.Errorf("a held source is not whole: %v", err)
		}
		if err := installed.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	if done == 0 {
		t.Error("nothing was ever installed, so nothing was tested")
	}
}
