package archtest

import (
	"slices"
	"strings"
	"testing"
)

// A rule is what a package may import beside the standard library: packages of
// the module by their path in it, modules by the start of theirs.
type rule struct {
	internal []string
	modules  []string
}

func rules() map[string]rule {
	return map[string]rule{
		".": {
			internal: []string{
				"environment", "internal/audit", "internal/config", "internal/guard", "internal/hosts", "internal/metrics", "internal/requestid",
				"internal/serve", "internal/spell", "internal/tracing", "pyagent",
				"sandbox", "sandbox/docker", "sandbox/gvisor", "session", "tools",
			},
			modules: []string{"github.com/lmittmann/tint", "github.com/mark3labs/mcp-go", "golang.org/x/term"},
		},
		"tools": {
			internal: []string{"internal/config", "internal/requestid", "internal/spell", "sandbox", "session"},
			modules:  []string{"github.com/invopop/jsonschema", "github.com/mark3labs/mcp-go", "golang.org/x/image"},
		},
		"session":        {internal: []string{"pyagent", "sandbox"}},
		"sandbox":        {},
		"sandbox/docker": {internal: []string{"sandbox", "sandbox/hostmount"}, modules: []string{"github.com/containerd/errdefs", "github.com/docker/docker"}},
		"sandbox/gvisor": {
			internal: []string{"sandbox", "sandbox/hostmount", "sandbox/usernet"},
			modules:  []string{"github.com/opencontainers/runtime-spec", "golang.org/x/sys", "gvisor.dev/gvisor"},
		},
		"sandbox/hostmount":    {internal: []string{"sandbox"}, modules: []string{"golang.org/x/sys"}},
		"sandbox/sandboxtest":  {internal: []string{"sandbox"}, modules: []string{"github.com/vishvananda"}},
		"sandbox/usernet":      {modules: []string{"github.com/vishvananda/netlink", "golang.org/x/sys", "gvisor.dev/gvisor"}},
		"pyagent":              {},
		"environment":          {modules: []string{"github.com/BurntSushi/toml", "github.com/google/go-containerregistry", "golang.org/x/sys"}},
		"internal/audit":       {internal: []string{"session", "tools"}},
		"internal/metrics":     {internal: []string{"session", "tools"}, modules: []string{"github.com/prometheus/client_golang"}},
		"internal/requestid":   {},
		"internal/tracing":     {internal: []string{"tools"}, modules: []string{"go.opentelemetry.io/otel"}},
		"internal/serve":       {internal: []string{"internal/requestid"}, modules: []string{"github.com/mark3labs/mcp-go"}},
		"internal/hosts":       {internal: []string{"internal/spell"}, modules: []string{"github.com/BurntSushi/toml", "github.com/tailscale/hujson"}},
		"internal/guard":       {modules: []string{"github.com/go-jose/go-jose/v4", "golang.org/x/time"}},
		"internal/config":      {internal: []string{"internal/guard", "internal/spell"}, modules: []string{"github.com/goccy/go-yaml"}},
		"internal/spell":       {},
		"internal/remains":     {},
		"internal/archtest":    {},
		"internal/mcptest":     {},
		"internal/dockerproxy": {},
	}
}

func TestImports(t *testing.T) {
	rules := rules()
	seen := map[string]bool{}
	for _, s := range sources(t) {
		rule, ok := rules[s.pkg]
		if !ok && !seen[s.pkg] {
			t.Errorf("package %s has no rule: say in internal/archtest/imports_test.go what it may import, and in docs/ARCHITECTURE.md what it is", s.pkg)
		}
		seen[s.pkg] = true
		for _, spec := range s.file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if ok && !rule.allows(path) {
				t.Errorf("%s imports %s, which %s may not", s.path, path, s.pkg)
			}
		}
	}
	for pkg := range rules {
		if !seen[pkg] {
			t.Errorf("there is a rule for %s, but no such package", pkg)
		}
	}
}

func (r rule) allows(path string) bool {
	if local, ok := strings.CutPrefix(path, module+"/"); ok {
		return slices.Contains(r.internal, local)
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(r.modules, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

func TestArchitecturePageNamesEveryPackage(t *testing.T) {
	page := read(t, "docs/ARCHITECTURE.md")
	for pkg := range rules() {
		if pkg == "." {
			pkg = "main"
		}
		if !strings.Contains(page, "`"+pkg+"`") {
			t.Errorf("docs/ARCHITECTURE.md does not name `%s`", pkg)
		}
	}
}
