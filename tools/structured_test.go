package tools

import (
	"bytes"
	"context"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/biocypher/biocage-mcp/session"
)

// Clients refuse a structured answer that its own schema does not allow, so
// the emptiest and the fullest result objects must both fit.
func TestStructuredAnswersFitTheirSchemas(t *testing.T) {
	full := &fakeSessions{
		run: func(context.Context, session.RunRequest) (session.RunResult, error) {
			return session.RunResult{
				Success: true, Status: session.StatusDone, RunID: "run-1", Result: new("1"), LateOutput: "x", Truncated: true,
				Error:     &session.RunError{Kind: "exception", Type: "T", Message: "m", Traceback: "t", Line: 3, Hint: "h"},
				Files:     []session.FileRef{{Path: "a", URI: "sandbox://s/a", MIMEType: "text/plain"}},
				Restarted: true, RestartReason: "r", Spool: map[string]string{"stdout": "/tmp/x"}, Notes: []string{"n"}, Session: "s",
			}, nil
		},
		file: []byte{0, 1}, mime: "application/zip",
		entries: []session.Entry{{Path: "a", Type: "file"}},
		info: session.Info{
			Session: "s", Limits: map[string]any{"cpus": 2.5}, Note: "n",
			ExposedPaths: []session.Exposure{{HostPath: "/a", SandboxPath: "/data/a", Mode: "ro", Live: true}},
			Variables:    []session.Variable{{Name: "x", Type: "int", Summary: "1"}},
		},
	}
	arguments := map[string]string{
		"python_run": `{"code":"x"}`, "file_write": `{"path":"a","content":""}`, "file_read": `{"path":"a"}`, "file_expose": `{"host_path":"/a"}`,
	}
	for name, sessions := range map[string]*fakeSessions{"empty": {}, "full": full} {
		h := newHarness(t, sessions, Options{Structured: true})
		for _, tool := range toolsOf(t, All(sessions, Options{Structured: true})) {
			t.Run(name+"/"+tool.Name, func(t *testing.T) {
				schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(tool.RawOutputSchema))
				if err != nil {
					t.Fatal(err)
				}
				compiler := jsonschema.NewCompiler()
				if err := compiler.AddResource("schema.json", schema); err != nil {
					t.Fatal(err)
				}
				compiled, err := compiler.Compile("schema.json")
				if err != nil {
					t.Fatal(err)
				}
				args := arguments[tool.Name]
				if args == "" {
					args = "{}"
				}
				instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(h.call(tool.Name, args).Result.StructuredContent))
				if err != nil {
					t.Fatal(err)
				}
				if err := compiled.Validate(instance); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
