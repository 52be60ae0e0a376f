package interop

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// bundle is what `make mcpb` makes.
func bundle(t *testing.T) string {
	t.Helper()
	path := filepath.Join(root(t), "build", "biocage-linux-"+runtime.GOARCH+".mcpb")
	if _, err := os.Stat(path); err != nil {
		missing(t, "there is no bundle; run make mcpb: %v", err)
	}
	return path
}

// The bundle, unpacked as a host does it, is a server that answers.
func TestBundle(t *testing.T) {
	dir := t.TempDir()
	unpack(t, bundle(t), dir)
	var manifest struct {
		Icon   string
		Server struct {
			Config struct {
				Command string
				Args    []string
				Env     map[string]string
			} `json:"mcp_config"`
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, manifest.Icon)); err != nil {
		t.Error(err)
	}
	fill := strings.NewReplacer("${__dirname}", dir, "${user_config.config}", "")
	filled := func(text string) string {
		text = fill.Replace(text)
		if strings.Contains(text, "${") {
			t.Errorf("%q has a variable that no host knows", text)
		}
		return text
	}
	env := []string{"BIOCAGE_DATA_DIR=" + t.TempDir()}
	for name, value := range manifest.Server.Config.Env {
		env = append(env, name+"="+filled(value))
	}
	var args []string
	for _, arg := range manifest.Server.Config.Args {
		if arg == "${user_config.folders}" { // several values become several arguments
			args = append(args, t.TempDir(), t.TempDir())
			continue
		}
		args = append(args, filled(arg))
	}
	if len(args) != 3 {
		t.Errorf("the chosen folders are not passed on: %q", args)
	}
	c, err := client.NewStdioMCPClient(filled(manifest.Server.Config.Command), env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "bundle", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		t.Fatal(err)
	}
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(toolNames(), names); diff != "" {
		t.Error(diff)
	}
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, file := range archive.File {
		if file.FileInfo().IsDir() {
			continue
		}
		from, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, file.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, file.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

// The registry's entry names the bundle that was made, in the form of the
// schema of 2025-12-11.
func TestRegistryEntry(t *testing.T) {
	data, err := os.ReadFile(bundle(t))
	if err != nil {
		t.Fatal(err)
	}
	var entry struct {
		Schema, Name, Description, Version string
		Packages                           []struct {
			RegistryType, Identifier, FileSha256 string
			Transport                            struct{ Type string }
		}
	}
	text, err := os.ReadFile(filepath.Join(root(t), "build", "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.Replace(string(text), "$schema", "schema", 1)), &entry); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if len(entry.Packages) != 1 {
		t.Fatalf("%d packages", len(entry.Packages))
	}
	p := entry.Packages[0]
	for what, ok := range map[string]bool{
		"schema":      strings.Contains(entry.Schema, "/2025-12-11/"),
		"name":        regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(entry.Name),
		"description": entry.Description != "" && len(entry.Description) <= 100,
		"version":     regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(entry.Version),
		"type":        p.RegistryType == "mcpb" && p.Transport.Type == "stdio",
		"identifier":  strings.HasPrefix(p.Identifier, "https://") && strings.HasSuffix(p.Identifier, filepath.Base(bundle(t))),
		"digest":      p.FileSha256 == hex.EncodeToString(sum[:]),
	} {
		if !ok {
			t.Errorf("%s does not fit:\n%s", what, text)
		}
	}
}
