package session

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/biocypher/biocage-mcp/sandbox"
)

func (r *reference) draw(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a.txt", "b.txt", "c.txt"}).Draw(rt, "file")
}

func (r *reference) write(t *testing.T, rt *rapid.T) {
	req := WriteRequest{Path: r.draw(rt), Append: rapid.Bool().Draw(rt, "append"), Data: []byte(rapid.StringN(0, 20, -1).Draw(rt, "data"))}
	res, err := r.m.WriteFile(t.Context(), conn, req)
	if err != nil {
		r.failed(rt, err)
		return
	}
	r.lives = true
	if !req.Append {
		r.files[req.Path] = ""
	}
	r.files[req.Path] += string(req.Data)
	if res.Size != int64(len(r.files[req.Path])) {
		rt.Fatalf("%s has %d bytes, must have %d", req.Path, res.Size, len(r.files[req.Path]))
	}
}

func (r *reference) read(t *testing.T, rt *rapid.T) {
	name := r.draw(rt)
	content, there := r.files[name]
	if rapid.Bool().Draw(rt, "exposed") {
		name, content, there = "/data/in.txt", "exposed", r.exposed
	}
	res, err := r.m.ReadFile(t.Context(), conn, ReadRequest{Path: name})
	argument, refused := errors.AsType[*ArgumentError](err)
	switch {
	case err == nil && there:
		if diff := cmp.Diff(content, string(res.Data)); diff != "" {
			rt.Fatalf("%s (-must +is):\n%s", name, diff)
		}
	case err == nil:
		rt.Fatalf("%s is there: %q", name, res.Data)
	case refused && argument.Missing && !there:
		if r.filesGo && !strings.Contains(err.Error(), "The sandbox was replaced") {
			rt.Fatalf("a loss of files was not told: %v", err)
		}
	default:
		r.failed(rt, err)
		return
	}
	r.lives = true
}

func (r *reference) list(t *testing.T, rt *rapid.T) {
	res, err := r.m.ListFiles(t.Context(), conn, ListRequest{})
	if err != nil {
		r.failed(rt, err)
		return
	}
	r.lives = true
	got := map[string]int64{}
	for _, e := range res.Entries {
		got[e.Path] = e.Size
	}
	want := map[string]int64{}
	for name, content := range r.files {
		want[name] = int64(len(content))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("files (-must +are):\n%s", diff)
	}
}

func (r *reference) expose(t *testing.T, rt *rapid.T) {
	res, err := r.m.Expose(t.Context(), conn, ExposeRequest{HostPath: r.host, Mode: sandbox.ReadOnly})
	if err != nil {
		r.failed(rt, err)
		return
	}
	r.lives, r.exposed = true, true
	if res.SandboxPath != "/data/in.txt" {
		rt.Fatalf("exposed at %s", res.SandboxPath)
	}
}

// info looks only: it may not tell of a sandbox that has been lost.
func (r *reference) info(t *testing.T, rt *rapid.T) {
	info, err := r.m.Info(t.Context(), conn)
	if err != nil {
		rt.Fatalf("session_info: %v", err)
	}
	r.lives = true
	if len(info.ExposedPaths) > 0 != r.exposed {
		rt.Fatalf("exposed are %v", info.ExposedPaths)
	}
	if len(info.Variables) > 0 && !r.owed {
		if got := info.Variables[0].Summary; got != strconv.Itoa(r.n) {
			rt.Fatalf("n is said to be %s, must be %d", got, r.n)
		}
	}
}

// die ends the worker between two cells; the next cell's reply tells.
func (a *fakeAgent) die() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n, a.died = 0, true
}

// listing is what a list_files_request asks for: the workspace.
func (a *fakeAgent) listing() []map[string]any {
	entries := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		if !strings.HasPrefix(name, "/") {
			entries = append(entries, map[string]any{"path": name, "type": "file", "size": len(a.files[name])})
		}
	}
	return entries
}
