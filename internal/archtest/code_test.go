package archtest

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// starters is every function that starts a goroutine. Each one's goroutines
// are waited for, or end with something that is; say by whom when you add one.
func starters() []string {
	return []string{
		". run",                             // the signals' goroutine ends with run's context
		"environment Store.Load",            // ends with its pipe, which Load closes
		"environment Store.Publish",         // ends with its pipe, which Publish closes
		"internal/serve HTTP.Serve",         // waited for, or it has failed
		"internal/serve Stdio.Serve",        // the writer is waited for; the reader ends with the input
		"internal/serve turns.take",         // turns.end waits
		"internal/serve front.sse",          // ends with the stream
		"internal/serve turns.end",          // ends with the calls
		"pyagent Conn.ping",                 // ends with the ping
		"pyagent NewConn",                   // Conn.Close waits
		"sandbox/docker Sandbox.onEnd",      // Sandbox.Close waits
		"sandbox/docker Sandbox.start",      // Sandbox.Close waits
		"sandbox/docker making.container",   // the creation waits
		"sandbox/docker watcher.start",      // Engine.Close waits
		"sandbox/gvisor Engine.start",       // the creation waits
		"sandbox/gvisor box.watch",          // Sandbox.Close waits
		"sandbox/hostmount traveller.live",  // lives as long as the process, see there
		"sandbox/hostmount traveller.visit", // ends with the visit
		"session Manager.Close",             // ends with the sessions
		"session Manager.spawn",             // Manager.Close waits
		"sandbox/gvisor uplink.watch",       // uplink.close waits
		"sandbox/usernet Net.acceptUDP",     // Net.Close waits
		"sandbox/usernet flow.run",          // waits
	}
}

func TestGoroutineStarters(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		if slices.Contains([]string{"sandbox/sandboxtest", "internal/remains", "internal/mcptest", "internal/dockerproxy"}, s.pkg) {
			continue // only tests use them
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found[s.pkg+" "+s.function(n.Pos())] = true
			case *ast.CallExpr:
				if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Go" && len(n.Args) == 1 {
					found[s.pkg+" "+s.function(n.Pos())] = true
				}
			}
			return true
		})
	}
	var got []string
	for name := range found {
		got = append(got, name)
	}
	slices.Sort(got)
	want := starters()
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions that start goroutines (-listed +found):\n%s", diff)
	}
}

// The process belongs to package main: it alone reads the environment and
// ends the process. gVisor's parts are processes of their own.
func TestProcessStateIsMains(t *testing.T) {
	forbidden := []string{"Getenv", "LookupEnv", "Environ", "Setenv", "Exit", "Args"}
	for _, s := range sources(t) {
		if s.pkg == "." || s.pkg == "sandbox/sandboxtest" || s.path == filepath.Join("sandbox", "gvisor", "dispatch.go") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "os" && slices.Contains(forbidden, selector.Sel.Name) {
				t.Errorf("%s uses os.%s, which is package main's", s.set.Position(n.Pos()), selector.Sel.Name)
			}
			return true
		})
	}
}

func TestFilesAreShort(t *testing.T) {
	check := func(extension string, limit int) {
		walk(t, extension, func(path string) {
			if strings.Contains(path, "_test.") || strings.Contains(path, "/tests/") {
				return
			}
			if lines := strings.Count(read(t, path), "\n"); lines > limit {
				t.Errorf("%s has %d lines, the limit is %d", path, lines, limit)
			}
		})
	}
	check(".go", 400)
	check(".py", 300)
}

func TestPackagesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		documented[s.pkg] = documented[s.pkg] || s.file.Doc.Text() != ""
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}
