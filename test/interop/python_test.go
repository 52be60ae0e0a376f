package interop

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The two versions of the SDK speak two eras of the protocol by default.
func TestPythonSDK(t *testing.T) {
	onEachEngine(t, func(t *testing.T, lab lab) {
		for sdk, era := range map[string]string{"1": "2025-11-25", "2": "2026-07-28"} {
			t.Run("mcp"+sdk, func(t *testing.T) {
				t.Parallel() // most is waiting
				facts := lab.play(t, sdk)
				for _, s := range scenarios() {
					t.Run(s.name, func(t *testing.T) { s.judge(t, facts[s.name]) })
				}
				t.Run("era", func(t *testing.T) {
					if got := parse[toolFacts](t, facts["tools"]).Protocol; got != era {
						t.Errorf("the revision is %s, not %s", got, era)
					}
				})
			})
		}
	})
}

type scenario struct {
	name  string
	judge func(*testing.T, json.RawMessage)
}

func scenarios() []scenario {
	return []scenario{
		{"long", judgeLong}, // the first to begin, as it takes the longest
		{"tools", judgeTools},
		{"state", judgeState},
		{"figure", judgeFigure},
		{"cancel", judgeCancel},
		{"timeout", judgeTimeout},
		{"killed", judgeKilled},
		{"progress", judgeProgress},
		{"large", judgeLarge},
		{"parallel", judgeParallel},
		{"meta", judgeMeta},
	}
}

// play runs every scenario with one version of the SDK.
func (l lab) play(t *testing.T, sdk string) map[string]json.RawMessage {
	t.Helper()
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	args := []string{filepath.Join("python", "run.py"), sdk, strings.Join(names, ",")}
	for name, value := range serverEnv() {
		args = append(args, name+"="+value)
	}
	args = append(args, "--", l.binary, "serve", "--config", l.config(t, settings{}))
	return playWith(t, nil, tool(t, "mcp"+sdk, "bin", "python"), args...)
}

func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

func toolNames() []string {
	return []string{
		"file_expose", "file_list", "file_read", "file_write",
		"python_run", "python_wait", "session_info", "session_reset",
	}
}

type toolFacts struct {
	Protocol string   `json:"protocol"`
	First    []string `json:"first"`
	Second   []string `json:"second"`
}

func judgeTools(t *testing.T, raw json.RawMessage) {
	facts := parse[toolFacts](t, raw)
	if diff := cmp.Diff(facts.First, facts.Second); diff != "" {
		t.Errorf("the order of the tools varies:\n%s", diff)
	}
	slices.Sort(facts.First)
	if diff := cmp.Diff(toolNames(), facts.First); diff != "" {
		t.Error(diff)
	}
}

func judgeState(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		First   answer  `json:"first"`
		Last    answer  `json:"last"`
		Seconds float64 `json:"seconds"`
	}](t, raw)
	if r := facts.First.run(t); !r.Success || r.Restarted {
		t.Errorf("the first call failed: %.1000s", facts.First.Result)
	}
	facts.Last.value(t, "(100, 4950)")
	t.Logf("100 calls took %.2f s", facts.Seconds)
}

func judgeFigure(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		Answer answer   `json:"answer"`
		Linked []string `json:"linked"`
	}](t, raw)
	r := facts.Answer.run(t)
	if !r.Success || r.Images != 1 || len(facts.Answer.Images) != 1 {
		t.Fatalf("%d images came: %.1000s", len(facts.Answer.Images), facts.Answer.Result)
	}
	facts.Answer.Images[0].picture(t)
	if len(r.Files) != 1 || r.Files[0].Path != "note.txt" {
		t.Errorf("the files are %v, not note.txt", r.Files)
	}
	if diff := cmp.Diff([]string{"a note\n"}, facts.Linked); diff != "" {
		t.Errorf("the link does not lead to the file:\n%s", diff)
	}
}

func judgeCancel(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		After   answer  `json:"after"`
		Seconds float64 `json:"seconds"`
	}](t, raw)
	facts.After.value(t, "42")
	if facts.Seconds > 15 {
		t.Errorf("the session was free again only after %.1f s", facts.Seconds)
	}
}

func judgeTimeout(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		Stopped answer `json:"stopped"`
		After   answer `json:"after"`
	}](t, raw)
	facts.Stopped.failure(t, "timeout", 124, false)
	facts.After.value(t, "42")
}

func judgeKilled(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		Dead   answer `json:"dead"`
		After  answer `json:"after"`
		Usable answer `json:"usable"`
	}](t, raw)
	facts.Dead.failure(t, "died", 137, true)
	facts.After.value(t, "False")
	facts.Usable.value(t, "42")
}

func judgeProgress(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		Answer answer    `json:"answer"`
		During int       `json:"during"`
		Late   int       `json:"late"`
		Values []float64 `json:"values"`
	}](t, raw)
	if r := facts.Answer.run(t); !r.Success {
		t.Errorf("the cell failed: %.1000s", facts.Answer.Result)
	}
	if facts.During < 3 || facts.During > 40 {
		t.Errorf("%d notifications came during a cell of 3 s", facts.During)
	}
	if facts.Late > 0 {
		t.Errorf("%d notifications came after the result", facts.Late)
	}
	for i, value := range facts.Values {
		if i > 0 && value <= facts.Values[i-1] {
			t.Errorf("the progress does not grow: %v", facts.Values)
			break
		}
	}
}

func judgeLarge(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		Printed answer `json:"printed"`
		Value   answer `json:"value"`
		Image   answer `json:"image"`
		After   answer `json:"after"`
	}](t, raw)
	for name, a := range map[string]answer{"stdout": facts.Printed, "value": facts.Value} {
		r := a.run(t)
		if !r.Success || !r.Truncated {
			t.Errorf("%s: success %v, truncated %v", name, r.Success, r.Truncated)
		}
		if len(a.Links) == 0 {
			t.Errorf("%s: no link leads to the whole", name)
		}
	}
	printed := facts.Printed.run(t).Stdout
	if !strings.Contains(printed, fmt.Sprintf("%049d", 0)) || !strings.Contains(printed, fmt.Sprintf("%049d", 99_999)) {
		t.Errorf("the head or the tail of the output is missing: %.200s", printed)
	}
	if r := facts.Image.run(t); !r.Success || len(facts.Image.Images) != 1 {
		t.Errorf("%d images came: %.1000s", len(facts.Image.Images), facts.Image.Result)
	}
	facts.After.value(t, "2")
}

// What was told to have run must have run, and nothing else.
func judgeParallel(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		Answers []answer `json:"answers"`
		Lists   []answer `json:"lists"`
		Ran     []int    `json:"ran"`
		After   answer   `json:"after"`
	}](t, raw)
	if len(facts.Answers) != 8 || len(facts.Lists) != 8 || len(facts.Ran) == 0 {
		t.Fatalf("%d cells and %d lists were answered, %d cells ran", len(facts.Answers), len(facts.Lists), len(facts.Ran))
	}
	for _, a := range facts.Answers {
		if r := a.run(t); !r.Success {
			a.failure(t, "busy", r.ExitCode, false)
		}
	}
	for _, a := range facts.Lists {
		if a.IsError {
			t.Errorf("a list failed: %.300s", a.Texts)
		}
	}
	facts.After.value(t, strings.Join(strings.Fields(fmt.Sprint(facts.Ran)), ", "))
}

func judgeLong(t *testing.T, raw json.RawMessage) {
	facts := parse[struct {
		First   answer `json:"first"`
		Busy    answer `json:"busy"`
		Rest    answer `json:"rest"`
		Stopped answer `json:"stopped"`
		After   answer `json:"after"`
	}](t, raw)
	if first := facts.First.run(t); first.Status != "running" || first.RunID == "" || facts.First.IsError {
		t.Errorf("the first answer does not say running: %.1000s", facts.First.Result)
	}
	busy := facts.Busy.run(t)
	facts.Busy.failure(t, "busy", busy.ExitCode, false)
	facts.Rest.value(t, "'whole'")
	if out := facts.Rest.run(t).Stdout; !strings.Contains(out, "begun") {
		t.Errorf("the output is lost: %q", out)
	}
	facts.Stopped.failure(t, "cancelled", 130, false)
	facts.After.value(t, "'whole'")
}

func judgeMeta(t *testing.T, raw json.RawMessage) {
	facts := parse[map[string]answer](t, raw)
	for _, name := range toolNames() {
		a, called := facts[name]
		if !called {
			t.Errorf("%s was not called", name)
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(a.Result, &object); err != nil || len(object) == 0 {
			t.Errorf("%s: no result object in _meta: %s", name, a.Result)
		}
		if refused := name == "file_expose"; a.IsError != refused {
			t.Errorf("%s: isError is %v: %.300s", name, a.IsError, a.Texts)
		}
	}
}
