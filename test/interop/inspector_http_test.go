package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The Inspector in strict mode over HTTP and over SSE, with the token; without
// it, it gets nothing.
func TestInspectorOverHTTP(t *testing.T) {
	onEachEngine(t, func(t *testing.T, lab lab) {
		i := lab.inspector(t, "")
		w := lab.listen(t)
		for _, path := range []string{"/mcp", "/sse"} {
			t.Run(path[1:], func(t *testing.T) {
				var list struct {
					Tools []struct {
						Name string `json:"name"`
					} `json:"tools"`
				}
				stdout, stderr, err := i.remote(t, w.url+path, w.token, "--method", "tools/list", "--strict")
				if err != nil || json.Unmarshal(stdout, &list) != nil {
					t.Fatalf("the Inspector failed: %v\n%s\n%s", err, stdout, tail(stderr, 20))
				}
				var names []string
				for _, tool := range list.Tools {
					names = append(names, tool.Name)
				}
				slices.Sort(names)
				if diff := cmp.Diff(toolNames(), names); diff != "" {
					t.Error(diff)
				}
				stdout, stderr, err = i.remote(t, w.url+path, w.token, "--method", "tools/call", "--tool-name", "python_run", "--tool-arg", "code=6 * 7")
				if err != nil || !bytes.Contains(stdout, []byte("42")) {
					t.Errorf("python_run: %v\n%.2000s\n%s", err, stdout, tail(stderr, 20))
				}
				stdout, _, err = i.remote(t, w.url+path, "wrong", "--method", "tools/list")
				if err == nil || bytes.Contains(stdout, []byte("python_run")) {
					t.Errorf("with a wrong token: %v\n%.500s", err, stdout)
				}
			})
		}
	})
}

// remote runs the Inspector on a server that listens.
func (i inspector) remote(t *testing.T, url, token string, args ...string) (stdout []byte, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.node, append([]string{i.program, "--cli", url, "--header", "Authorization: Bearer " + token}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+i.home, "PATH="+filepath.Dir(i.node)+":"+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.Bytes(), errs.String(), err
}
