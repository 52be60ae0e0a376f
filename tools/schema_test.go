package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const packagesLine = "numpy, pandas, scipy, scikit-learn, matplotlib, seaborn, pillow, openpyxl, pyarrow, requests"

func TestSchemas(t *testing.T) {
	for _, structured := range []bool{false, true} {
		for _, tool := range All(&fakeSessions{}, Options{Packages: packagesLine, Structured: structured}) {
			name := tool.Tool.Name
			if structured {
				name += ".structured"
			}
			t.Run(name, func(t *testing.T) {
				data, err := json.Marshal(tool.Tool)
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				if err := json.Indent(&got, data, "", "  "); err != nil {
					t.Fatal(err)
				}
				got.WriteByte('\n')
				golden := filepath.Join("testdata", "schema", name+".json")
				if *update {
					if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatalf("%v; run go test ./tools -update", err)
				}
				if diff := cmp.Diff(string(want), got.String()); diff != "" {
					t.Errorf("schema changed (-golden +got); if that is meant, run go test ./tools -update\n%s", diff)
				}
			})
		}
	}
}

// The definitions are part of every conversation, so they cost on every turn.
// 3.5 bytes a token is below what common tokenizers need for English and JSON.
func TestTokenBudget(t *testing.T) {
	list, err := json.Marshal(toolsOf(t, All(&fakeSessions{}, Options{Packages: packagesLine})))
	if err != nil {
		t.Fatal(err)
	}
	if tokens := int(float64(len(list)) / 3.5); tokens > 1500 {
		t.Errorf("tools/list costs about %d tokens (%d bytes), the budget is 1500", tokens, len(list))
	} else {
		t.Logf("about %d tokens (%d bytes)", tokens, len(list))
	}
}

func TestToolsAreComplete(t *testing.T) {
	nameForm := regexp.MustCompile(`^[a-z_]{1,40}$`)
	want := []string{"python_run", "python_wait", "file_write", "file_read", "file_list", "file_expose", "session_reset", "session_info"}
	var got []string
	for _, tool := range toolsOf(t, All(&fakeSessions{}, Options{Packages: packagesLine})) {
		got = append(got, tool.Name)
		if !nameForm.MatchString(tool.Name) {
			t.Errorf("%s: not a name every host takes", tool.Name)
		}
		a := tool.Annotations
		if a.ReadOnlyHint == nil || a.DestructiveHint == nil || a.IdempotentHint == nil || a.OpenWorldHint == nil {
			t.Errorf("%s: a hint is missing", tool.Name)
		}
		if tool.Title == "" || tool.Description == "" || len(tool.Description) > 1000 {
			t.Errorf("%s: title %q, description of %d bytes", tool.Name, tool.Title, len(tool.Description))
		}
		schema := string(tool.RawInputSchema)
		for _, part := range []string{`"type":"object"`, `"additionalProperties":false`, `"session":{"type":"string"`} {
			if !strings.Contains(schema, part) {
				t.Errorf("%s: the schema lacks %s", tool.Name, part)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// A comma in the jsonschema tag's description cuts it without a word.
func TestDescriptionsAreNotInTheJSONSchemaTag(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`jsonschema:"[^"]*description=`).Match(source) {
			t.Errorf("%s: use jsonschema_description", file)
		}
	}
}
