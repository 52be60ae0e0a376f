package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// asks makes a manager that may ask, and a folder with things to ask about.
func asks(t *testing.T) (m *Manager, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"root", "home/docs", "data/.ssh", "own", "keys"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"root/in.csv", "home/docs/a.csv", "data/b.csv", "data/.ssh/id", "own/handle", "keys/x.pem", "data/.env"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"home/link.csv": "docs/a.csv", "home/to_key": "../keys/x.pem", "home/to_own": "../own/handle", "announced": "home/docs"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return &Manager{opts: Options{
		Roots: []HostRoot{{Path: filepath.Join(dir, "root")}}, Ask: true,
		Home: filepath.Join(dir, "home"), Private: []string{filepath.Join(dir, "own")},
	}, sessions: map[string]*session{}, places: map[place]*session{}}, dir
}

func TestWhatThePersonIsAsked(t *testing.T) {
	m, dir := asks(t)
	tests := []struct {
		path string
		mode sandbox.Mode
		ask  string // the path shown
		want string // or the refusal
	}{
		{path: "home/docs/a.csv", ask: "home/docs/a.csv"},
		{path: "home/docs", ask: "home/docs"},
		{path: "home/link.csv", ask: "home/docs/a.csv"},
		{path: "home/docs/../docs/a.csv", ask: "home/docs/a.csv"},
		{path: "home/docs/a.csv", mode: sandbox.ReadWrite, want: "outside the folders"},
		{path: "home", want: "home directory"},
		{path: "", want: "home directory"},
		{path: "data/.ssh/id", want: "secrets"},
		{path: "data/.env", want: "secrets"},
		{path: "data", want: "secrets"},
		{path: "keys/x.pem", want: "secrets"},
		{path: "home/to_key", want: "secrets"},
		{path: "own/handle", want: "files of this server"},
		{path: "home/to_own", want: "files of this server"},
		{path: "own", want: "files of this server"},
		{path: "nothing", want: "does not exist"},
		{path: "//proc/self/environ", want: "system's inside"},
		{path: "//", want: "whole host"},
	}
	for _, tt := range tests {
		name := filepath.Join(dir, tt.path)
		if strings.HasPrefix(tt.path, "//") {
			name = filepath.Clean(tt.path)
		}
		_, _, _, err := m.openFor(Ref{Connection: "c"}, ExposeRequest{HostPath: name, Mode: tt.mode})
		question, asked := errors.AsType[*OutsideError](err)
		if asked != (tt.ask != "") || asked && question.Path != filepath.Join(dir, tt.ask) || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s (%s): %v", tt.path, tt.mode, err)
		}
	}
}

func TestAnAnswerCountsForWhatWasShown(t *testing.T) {
	m, dir := asks(t)
	ref := Ref{Connection: "c"}
	s := &session{m: m, place: ref.place(), handle: "sbx_x", admitted: make(chan struct{})}
	close(s.admitted)
	m.places[ref.place()] = s
	shown, other := filepath.Join(dir, "home/docs/a.csv"), filepath.Join(dir, "home/link.csv")
	open := func(name string, allowed *Allowance) error {
		h, _, real, err := m.openFor(ref, ExposeRequest{HostPath: name, Allowed: allowed})
		if err != nil {
			return err
		}
		if real != shown {
			t.Errorf("%s leads to %s", name, real)
		}
		return h.file.Close()
	}
	if err := open(shown, &Allowance{Path: filepath.Join(dir, "home/docs")}); err == nil {
		t.Error("the answer to another path counts")
	}
	if err := open(other, &Allowance{Path: shown}); err != nil {
		t.Error(err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../data/b.csv", other); err != nil {
		t.Fatal(err)
	}
	if err := open(other, &Allowance{Path: shown}); err == nil {
		t.Error("a link that was turned after the answer leads on")
	}
	s.grant(filepath.Join(dir, "home/docs"))
	if err := open(shown, nil); err != nil {
		t.Errorf("allowed for the session: %v", err)
	}
	s.grants = nil
	if err := m.Decline(t.Context(), ref, shown); !strings.Contains(err.Error(), "declined") {
		t.Error(err)
	}
	if err := open(shown, nil); err == nil || !strings.Contains(err.Error(), "declined") {
		t.Errorf("after the person declined: %v", err)
	}
	for i := range 2 * maxDeclined {
		if err := m.Decline(t.Context(), ref, fmt.Sprintf("/x%d", i)); err == nil {
			t.Fatal("declined without a word")
		}
	}
	if err := open(filepath.Join(dir, "data/b.csv"), nil); err == nil || !strings.Contains(err.Error(), "not asked again") || len(s.declined) > maxDeclined {
		t.Errorf("after %d paths: %v", len(s.declined), err)
	}
}

func TestAnnouncedRoots(t *testing.T) {
	m, dir := asks(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	tests := []struct {
		root, path string
		mode       sandbox.Mode
		want       string // "": it is exposed
	}{
		{root: at("home/docs"), path: at("home/docs/a.csv")},
		{root: at("announced"), path: at("announced/a.csv")},
		{root: at("home/docs"), path: at("home/docs/a.csv"), mode: sandbox.ReadWrite, want: "read-only"},
		{root: at("home"), path: at("home/docs/a.csv"), want: "home directory"},
		{root: "/", path: at("home/docs/a.csv"), want: "whole host"},
		{root: at("own"), path: at("own/handle"), want: "files of this server"},
		{root: at("data"), path: at("data/.env"), want: "secrets"},
		{root: at("data/.ssh"), path: at("data/.ssh/id"), want: "secrets"},
		{root: at("nothing"), path: at("nothing/x"), want: "does not exist"},
		{root: at("home/docs"), path: at("home/docs/../../data/b.csv"), want: "outside"},
		{root: at("home/docs"), path: at("data/b.csv"), want: "outside"},
	}
	for _, tt := range tests {
		h, root, _, err := m.openFor(Ref{Connection: "c"}, ExposeRequest{HostPath: tt.path, Mode: tt.mode, Roots: []string{tt.root}})
		if err == nil {
			if root == "" || h.file.Close() != nil {
				t.Errorf("%s beneath %q", tt.path, root)
			}
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s beneath %s (%s): %v", tt.path, tt.root, tt.mode, err)
		}
	}
}

// Who declines before anything has run is not asked again either.
func TestADeclinedPathIsRememberedFromTheFirstCall(t *testing.T) {
	_, dir := asks(t)
	e := &fakeEngine{}
	m := newTestManager(t, e, func(o *Options) { o.Ask = true; o.Warm = 0 })
	ref, name := Ref{Connection: "c"}, filepath.Join(dir, "data/b.csv")
	if _, err := m.Expose(t.Context(), ref, ExposeRequest{HostPath: name}); !errors.As(err, new(*OutsideError)) {
		t.Fatalf("first: %v", err)
	}
	if err := m.Decline(t.Context(), ref, name); !strings.Contains(err.Error(), "declined") {
		t.Error(err)
	}
	if _, err := m.Expose(t.Context(), ref, ExposeRequest{HostPath: name}); err == nil || !strings.Contains(err.Error(), "declined") {
		t.Errorf("second: %v", err)
	}
	if n := e.created.Load(); n != 0 {
		t.Errorf("%d sandboxes were made for it", n)
	}
}

// Who closes the question again and again is not asked for ever.
func TestQuestionsWithoutAnswersEnd(t *testing.T) {
	_, dir := asks(t)
	m := newTestManager(t, &fakeEngine{}, func(o *Options) { o.Ask = true; o.Warm = 0 })
	ref, other := Ref{Connection: "c"}, Ref{Connection: "d"}
	ask := func(ref Ref) error {
		_, err := m.Expose(t.Context(), ref, ExposeRequest{HostPath: filepath.Join(dir, "data/b.csv")})
		return err
	}
	for i := range maxUndecided {
		if err := ask(ref); !errors.As(err, new(*OutsideError)) {
			t.Fatalf("question %d: %v", i, err)
		}
		m.Undecided(t.Context(), ref)
	}
	if err := ask(ref); err == nil || !strings.Contains(err.Error(), "had no answer") {
		t.Errorf("after %d: %v", maxUndecided, err)
	}
	if err := ask(other); !errors.As(err, new(*OutsideError)) {
		t.Errorf("another session: %v", err)
	}
}
