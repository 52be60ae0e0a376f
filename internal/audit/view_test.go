package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/internal/audit"
	"github.com/biocypher/biocage-mcp/internal/serve"
	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

func (sessions) Handles(session.Ref) []string { return []string{"sbx_" + canary} }

func (sessions) PeekFile(_ context.Context, _ session.Ref, req session.ReadRequest) (session.ReadResult, error) {
	if req.Path == "panic" {
		panic(canary)
	}
	return session.ReadResult{Size: 10, Data: []byte(canary)}, nil
}

func (sessions) PeekFiles(context.Context, session.Ref, session.ListRequest) (session.ListResult, error) {
	return session.ListResult{Entries: []session.Entry{{Path: canary, Type: "file"}}}, nil
}

func (sessions) History(session.Ref) (session.History, error) {
	return session.History{Cells: []string{canary}}, nil
}

// wholeServer is the server as clients meet it, with an audit log.
func wholeServer(t *testing.T, change func(*audit.Options)) (ask func(message string) string, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	o := audit.Options{Path: path, PID: 7, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	log, err := audit.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	opts := tools.Options{Observers: []tools.Observer{log}}
	s := serve.NewServer(serve.Options{
		Tools: tools.All(sessions{}, opts), Templates: tools.Templates(sessions{}, opts), Resources: tools.Resources(sessions{}, opts),
		Prompts: tools.Prompts(sessions{}, opts), Completions: tools.Completions(sessions{}, opts), OnUnknownTool: tools.Unknown(opts),
	})
	return func(message string) string {
		answer, err := json.Marshal(s.HandleMessage(t.Context(), json.RawMessage(`{"jsonrpc":"2.0","id":1,`+message+`}`)))
		if err != nil {
			t.Error(err)
		}
		return string(answer)
	}, o.Path
}

// Whatever looks into a session leaves a line, and so does a call of a tool
// that is not there; none tells what the client said or read.
func TestEveryLookIntoASessionHasALine(t *testing.T) {
	uri := `"sandbox://sbx_` + canary + `/` // as in links
	for _, tt := range []struct{ name, message, answer, want string }{
		{"a file", `"method":"resources/read","params":{"uri":` + uri + `x.csv"}`, canary, "resources/read ok 506ba7d8d38c"},
		{"a bad part", `"method":"resources/read","params":{"uri":` + uri + `x.csv?offset=-1"}`, `"error"`, "resources/read argument "},
		{"a fault", `"method":"resources/read","params":{"uri":` + uri + `panic"}`, "Internal error", "resources/read panic 506ba7d8d38c"},
		{"the list", `"method":"resources/list"`, canary, "resources/list ok "},
		{"a bad cursor", `"method":"resources/list","params":{"cursor":"eA=="}`, "", "resources/list argument "},
		{"a prompt", `"method":"prompts/get","params":{"name":"export_session","arguments":{"session":"sbx_` + canary + `"}}`, canary, "prompts/get ok 506ba7d8d38c"},
		{"a refused prompt", `"method":"prompts/get","params":{"name":"debug_error"}`, `"error"`, "prompts/get argument "},
		{"a completion", `"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"export_session"},"argument":{"name":"path","value":""}}`, canary, "completion/complete ok "},
		{"no tool of ours", `"method":"tools/call","params":{"name":"` + canary + `","arguments":{"a":"` + canary + `"}}`, `"error"`, "unknown argument "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask, path := wholeServer(t, nil)
			if answer := ask(tt.message); !strings.Contains(answer, tt.answer) {
				t.Errorf("answer: %s", answer)
			}
			var got []string
			for _, line := range lines(t, path) {
				got = append(got, strings.Join([]string{line["tool"].(string), line["outcome"].(string), line["session"].(string)}, " "))
				if line["request"] == "" || line["outcome"] == "ok" && line["bytes_out"].(float64) <= 2 {
					t.Errorf("%v", line)
				}
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Error(diff)
			}
			if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte(canary)) {
				t.Errorf("the log tells what was said or read: %s %v", text, err)
			}
		})
	}
}

// While no line can be written, nothing is read either, where lines are required.
func TestNothingIsReadWithoutItsRequiredLine(t *testing.T) {
	ask, path := wholeServer(t, func(o *audit.Options) { o.Required = true })
	read := `"method":"resources/read","params":{"uri":"sandbox://sbx_a/x.csv"}`
	if answer := ask(read); !strings.Contains(answer, canary) {
		t.Fatal(answer)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	ask(read) // meets the fault
	for _, message := range []string{
		read, `"method":"prompts/get","params":{"name":"export_session"}`, `"method":"resources/list"`,
		`"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"export_session"},"argument":{"name":"path","value":""}}`,
	} {
		if answer := ask(message); strings.Contains(answer, canary) {
			t.Errorf("%s was answered with %s", message, answer)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ask(read)
	if answer := ask(read); !strings.Contains(answer, canary) {
		t.Errorf("when lines can be written again: %s", answer)
	}
}
