package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The Inspector starts the server as hosts do: from a list of servers.
func TestInspector(t *testing.T) {
	onEachEngine(t, func(t *testing.T, lab lab) {
		shared := t.TempDir()
		i := lab.inspector(t, shared)

		t.Run("tools", func(t *testing.T) {
			var list struct {
				Tools []struct {
					Name string `json:"name"`
				} `json:"tools"`
			}
			// With --strict it ends with 6 when a schema is not portable.
			i.run(t, &list, "--method", "tools/list", "--strict")
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			slices.Sort(names)
			if diff := cmp.Diff(toolNames(), names); diff != "" {
				t.Error(diff)
			}
		})
		t.Run("figure", func(t *testing.T) {
			a := i.python(t, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n6 * 7")
			a.value(t, "42")
			if len(a.Images) != 1 {
				t.Fatalf("%d images came", len(a.Images))
			}
			a.Images[0].picture(t)
		})
		t.Run("killed", func(t *testing.T) {
			i.python(t, "import os\nos.kill(os.getpid(), 9)").failure(t, "died", 137, true)
		})
		t.Run("timeout", func(t *testing.T) {
			i.python(t, "while True: pass", "timeout_seconds=1").failure(t, "timeout", 124, false)
		})
		t.Run("state over 100 calls", func(t *testing.T) {
			code := "n = globals().get('n', 0) + 1\nopen('/data/shared/n', 'w').write(str(n))"
			i.run(t, nil, "--method", "tools/call", "--tool-name", "python_run", "--tool-arg", "code="+code,
				"--load", "--load-requests", "100", "--load-concurrency", "1")
			n, err := os.ReadFile(filepath.Join(shared, "n"))
			if err != nil || string(n) != "100" {
				t.Errorf("after 100 calls the variable is %q, error %v", n, err)
			}
		})
	})
}

type inspector struct {
	node, program, servers, home string
}

func (l lab) inspector(t *testing.T, shared string) inspector {
	t.Helper()
	modules := func(path ...string) string { return tool(t, append([]string{"node", "node_modules"}, path...)...) }
	dir := t.TempDir()
	i := inspector{
		node:    modules(".bin", "node"),
		program: modules("@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"),
		servers: filepath.Join(dir, "mcp.json"),
		home:    dir,
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"biocage": map[string]any{
		"command": l.binary,
		"args":    []string{"serve", "--config", l.config(t, settings{shared: shared})},
		"env":     serverEnv(),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.servers, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

// run runs the Inspector once; it must succeed. into may be nil.
func (i inspector) run(t *testing.T, into any, args ...string) {
	t.Helper()
	stdout, stderr, err := i.exec(t, args...)
	if err != nil {
		t.Fatalf("the Inspector failed: %v\n%s\n%s", err, stdout, tail(stderr, 40))
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(stdout, into); err != nil {
		t.Fatalf("unreadable output: %v\n%.2000s", err, stdout)
	}
}

func (i inspector) exec(t *testing.T, args ...string) (stdout []byte, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.node, append([]string{i.program, "--cli", "--config", i.servers, "--server", "biocage"}, args...)...)
	// A home of its own: the Inspector keeps a catalogue of servers there.
	cmd.Env = append(os.Environ(), "HOME="+i.home, "PATH="+filepath.Dir(i.node)+":"+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.Bytes(), errs.String(), err
}

// python calls python_run. The Inspector's exit code tells isError, which is
// judged by the result.
func (i inspector) python(t *testing.T, code string, more ...string) answer {
	t.Helper()
	args := []string{"--method", "tools/call", "--tool-name", "python_run", "--tool-arg", "code=" + code}
	for _, arg := range more {
		args = append(args, "--tool-arg", arg)
	}
	stdout, stderr, err := i.exec(t, args...)
	var result struct {
		IsError bool                       `json:"isError"`
		Meta    map[string]json.RawMessage `json:"_meta"`
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Data     string `json:"data"`
			MIMEType string `json:"mimeType"`
			URI      string `json:"uri"`
		} `json:"content"`
	}
	if jsonErr := json.Unmarshal(stdout, &result); jsonErr != nil {
		t.Fatalf("the Inspector failed: %v, unreadable output: %v\n%.2000s\n%s", err, jsonErr, stdout, tail(stderr, 40))
	}
	if (err != nil) != result.IsError {
		t.Errorf("the Inspector ended with %v though isError is %v\n%s", err, result.IsError, tail(stderr, 10))
	}
	a := answer{IsError: result.IsError, Result: result.Meta["biocage/result"], Size: len(strings.TrimSpace(string(stdout)))}
	for _, block := range result.Content {
		switch block.Type {
		case "text":
			a.Texts = append(a.Texts, block.Text)
		case "image":
			a.Images = append(a.Images, image{MIME: block.MIMEType, Data: block.Data})
		case "resource_link":
			a.Links = append(a.Links, block.URI)
		}
	}
	return a
}
