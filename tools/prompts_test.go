package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/session"
)

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test ./tools -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s changed (-golden +got); if that is meant, run go test ./tools -update\n%s", name, diff)
	}
}

func history() session.History {
	return session.History{
		Session: "sbx_a", Dropped: 2,
		Cells: []string{"import pandas as pd\ndf = pd.read_csv('a.csv')", "text = '''```\n'''"},
		Failed: &session.FailedRun{
			Code: "df['agee']\u202e", Error: session.RunError{Kind: "exception", Type: "KeyError", Message: "'agee'", Traceback: "line 1\n\x1b[31mKeyError: 'agee'", Hint: "The columns are: age."},
		},
	}
}

func prompted(t *testing.T, f *fakeSessions, name string, args map[string]string) (string, error) {
	t.Helper()
	for _, p := range Prompts(f, Options{}) {
		if p.Prompt.Name == name {
			request := mcp.GetPromptRequest{}
			request.Params.Name, request.Params.Arguments = name, args
			result, err := p.Handler(t.Context(), request)
			if err != nil {
				return "", err
			}
			return result.Messages[0].Content.(mcp.TextContent).Text, nil
		}
	}
	t.Fatalf("no prompt %s", name)
	return "", nil
}

func TestPrompts(t *testing.T) {
	var list []mcp.Prompt
	for _, p := range Prompts(&fakeSessions{}, Options{}) {
		list = append(list, p.Prompt)
	}
	for _, template := range Templates(&fakeSessions{}, Options{}) {
		data, err := json.MarshalIndent(template.Template, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "template/"+template.Template.Name+".json", append(data, '\n'))
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "prompt/list.json", append(data, '\n'))
	for name, test := range map[string]struct {
		prompt string
		args   map[string]string
	}{
		"analyse_host":      {"analyse_data", map[string]string{"file": "/srv/data/in.csv", "question": "Who is oldest?", "session": "sbx_a"}},
		"analyse_workspace": {"analyse_data", map[string]string{"file": "in\n.csv"}},
		"debug":             {"debug_error", nil},
		"export_notebook":   {"export_session", nil},
		"export_script":     {"export_session", map[string]string{"format": "script", "path": "out/x.py"}},
	} {
		text, err := prompted(t, &fakeSessions{history: history()}, test.prompt, test.args)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if Sanitize(text) != text {
			t.Errorf("%s is not sanitized: %q", name, text)
		}
		golden(t, "prompt/"+name+".txt", []byte(text+"\n"))
	}
}

func TestPromptRefusals(t *testing.T) {
	tests := []struct {
		prompt string
		args   map[string]string
		err    error
		want   string
	}{
		{"analyse_data", nil, nil, "needs the argument file"},
		{"analyse_data", map[string]string{"file": " "}, nil, "needs the argument file"},
		{"analyse_data", map[string]string{"file": "x", "questoin": "y"}, nil, "did you mean question?"},
		{"analyse_data", map[string]string{"file": strings.Repeat("x", 5000)}, nil, "longer than"},
		{"debug_error", nil, nil, "No run of this session has failed"},
		{"debug_error", nil, session.ErrUnknown, "does not exist, or has ended"},
		{"export_session", nil, nil, "nothing to export"},
		{"export_session", map[string]string{"format": "pdf"}, nil, "format must be notebook or script"},
	}
	for _, tt := range tests {
		_, err := prompted(t, &fakeSessions{err: tt.err}, tt.prompt, tt.args)
		f, ok := errors.AsType[*failure](err)
		if !ok || !strings.Contains(f.text, tt.want) {
			t.Errorf("%s %v: %v, want %s", tt.prompt, tt.args, err, tt.want)
			continue
		}
		if code, _ := f.RPC(true); code != mcp.INVALID_PARAMS {
			t.Errorf("%s %v: code %d", tt.prompt, tt.args, code)
		}
	}
}

func TestFencesHold(t *testing.T) {
	for _, text := range []string{"", "x", "```", "````\n```", strings.Repeat("`", 50)} {
		got := fenced("python", text)
		fence := got[:strings.Index(got, "python")]
		if strings.Contains(text, fence) || !strings.HasSuffix(got, "\n"+fence) {
			t.Errorf("%q is fenced %q", text, got)
		}
	}
}

func TestCompletions(t *testing.T) {
	f := &fakeSessions{
		handles: []string{"sbx_a", "sbx_b"},
		names:   []string{"/srv/data/", "/srv/data/in.csv"},
		entries: []session.Entry{
			{Path: "d/x.csv", Type: "file"},
			{Path: "d/xdir", Type: "directory"},
			{Path: "d/.hidden", Type: "file"},
			{Path: "d/y", Type: "symlink"},
			{Path: "d/x\u202e", Type: "file"},
			{Path: "d/x\ny", Type: "file"},
		},
	}
	c := Completions(f, Options{})
	tests := []struct {
		name, prompt, arg, value string
		want                     []string
	}{
		{"sessions", "debug_error", "session", "sbx_b", []string{"sbx_b"}},
		{"files", "analyse_data", "file", "d/x", []string{"d/x.csv", "d/xdir/"}},
		{"host files", "analyse_data", "file", "/srv/", []string{"/srv/data/", "/srv/data/in.csv"}},
		{"format", "export_session", "format", "n", []string{"notebook"}},
		{"path", "export_session", "path", "d/xd", []string{"d/xdir/"}},
		{"unknown prompt", "other", "file", "d/", []string{}},
		{"unknown argument", "analyse_data", "question", "d/", []string{}},
	}
	for _, tt := range tests {
		got, err := c.CompletePromptArgument(t.Context(), tt.prompt, mcp.CompleteArgument{Name: tt.arg, Value: tt.value}, mcp.CompleteContext{})
		if err != nil {
			t.Fatal(err)
		}
		if tt.name == "host files" { // the sandbox's own names are offered beside them
			got.Values = got.Values[:2]
		}
		if diff := cmp.Diff(tt.want, got.Values); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	got, err := c.CompleteResourceArgument(t.Context(), resourceTemplate, mcp.CompleteArgument{Name: "path", Value: "d/x"}, mcp.CompleteContext{Arguments: map[string]string{"session": "sbx_b"}})
	if diff := cmp.Diff([]string{"d/x.csv", "d/xdir/"}, got.Values); err != nil || diff != "" || f.ref.Handle != "sbx_b" || f.list.Path != "d/" {
		t.Errorf("%v %s %+v %+v", err, diff, f.ref, f.list)
	}
	for i := range 150 {
		f.entries = append(f.entries, session.Entry{Path: fmt.Sprintf("d/many%d", i), Type: "file"})
	}
	f.err = nil
	got, err = c.CompleteResourceArgument(t.Context(), resourceTemplate, mcp.CompleteArgument{Name: "path", Value: "d/many"}, mcp.CompleteContext{})
	if err != nil || len(got.Values) != maxCompletions || got.Total != 150 || !got.HasMore {
		t.Errorf("%v: %d of %d", err, len(got.Values), got.Total)
	}
	f.err = session.ErrUnknown
	got, err = c.CompleteResourceArgument(t.Context(), resourceTemplate, mcp.CompleteArgument{Name: "path", Value: "d/"}, mcp.CompleteContext{})
	if err != nil || got.Values == nil || len(got.Values) != 0 {
		t.Errorf("a failure: %v %v", got, err)
	}
}
