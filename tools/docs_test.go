package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The calls that documents show are calls that the tools take.
func TestCallsInDocuments(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?m)^[ ]*```json\n[ ]*(\\{\"name\":.*)\n[ ]*```")
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range block.FindAllSubmatch(text, -1) {
			found++
			var call struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			}
			if err := json.Unmarshal(match[1], &call); err != nil {
				t.Errorf("%s: %v in %s", filepath.Base(page), err, match[1])
				continue
			}
			o := newHarness(t, &fakeSessions{}, Options{MaxTimeout: 10 * time.Minute}).call(call.Name, string(call.Arguments))
			if o.Result.IsError && strings.Contains(o.object(), `"kind":"argument"`) {
				t.Errorf("%s: %s is refused: %s", filepath.Base(page), match[1], o.text())
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d calls were found", found)
	}
}
