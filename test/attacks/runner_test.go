//go:build linux

package attacks

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/internal/mcptest"
)

// filled has a value for every placeholder.
func filled() map[string]string {
	fill := map[string]string{}
	for _, name := range []string{
		"HOST_CANARY_PATH", "HOST_CANARY", "HOST_PORT", "HOST_GW", "SECRET", "HOSTNAME", "ALLOWED_ROOT",
		"EXPOSED_RO", "EXPOSED_RO_HOST", "EXPOSED_RW", "EXPOSED_RW_HOST", "HOST_MARK",
	} {
		fill[name] = "/x/" + name
	}
	return fill
}

func TestEveryAttackIsUnderstood(t *testing.T) {
	for _, engine := range []string{"docker", "gvisor"} {
		lines, err := load("testdata/attacks.jsonl", engine, filled())
		if err != nil {
			t.Fatal(err)
		}
		more, err := load("testdata/more.jsonl", engine, filled())
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, more...)
		ids := map[string]bool{}
		for _, l := range lines {
			if l.unclear != nil {
				t.Errorf("%s on %s: %v", l.ID, engine, l.unclear)
			}
			if ids[l.ID] {
				t.Errorf("%s is there twice", l.ID)
			}
			ids[l.ID] = true
			if strings.Contains(l.Code, "{{") && !strings.Contains(l.Code, "f'") {
				t.Errorf("%s has a placeholder without a value", l.ID)
			}
		}
		known, err := weakenings()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range known {
			if !ids[w.ID] || w.Why == "" {
				t.Errorf("weaker.json has %q, which is no attack, or does not say why", w.ID)
			}
		}
	}
}

func TestUnknownConditionsAreNotPassedOver(t *testing.T) {
	for _, raw := range []string{
		`{"id":"a","class":"c","why":"","code":"","must":{"verdictt":"OK"}}`,
		`{"id":"a","class":"c","why":"","code":"","must":{"then":[{"tool":"x","must":{"ok":true}}]}}`,
		`{"id":"a","class":"c","why":"","code":"{{HOST_NEW}}","must":{}}`,
		`{"id":"a","class":"c","why":"","code":"","must":{"gvisor":{"new":1}}}`,
	} {
		l, err := parse(raw, "gvisor", filled(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.unclear == nil {
			t.Errorf("understood: %s", raw)
		}
	}
}

func TestEngineConditionsReplaceThoseOfTheirKind(t *testing.T) {
	raw := `{"id":"a","class":"c","why":"","code":"","must":{"verdict":"DENIED","reason":"ok","wall_s_max":3,"gvisor":{"verdict_any":["DENIED","ALLOWED"]}}}`
	l, err := parse(raw, "gvisor", nil, []weakening{{ID: "a", Engine: "gvisor", Why: "w", Must: json.RawMessage(`{"reason_any":["oom"]}`)}})
	if err != nil || l.unclear != nil {
		t.Fatal(err, l.unclear)
	}
	got := []any{l.Must.Verdict, []string(l.Must.VerdictAny), l.Must.Reason, []string(l.Must.ReasonAny), *l.Must.WallSMax, l.weaker}
	want := []any{"", []string{"DENIED", "ALLOWED"}, "", []string{"oom"}, 3.0, "w"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// answered makes the answer to a run.
func answered(object mcptest.Object) outcome {
	meta, _ := json.Marshal(object)
	failed := object.Error != nil
	content := []mcptest.Block{{Type: "text", Text: object.Stdout}}
	return outcome{&mcptest.Answer{IsError: failed, Content: content, Object: object, Meta: meta, Line: meta}, 2 * time.Second}
}

func fault(kind, name, message string) mcptest.Object {
	return mcptest.Object{Error: &mcptest.Fault{Kind: kind, Type: name, Message: message}}
}

func TestReasons(t *testing.T) {
	tests := []struct {
		object mcptest.Object
		want   []string
	}{
		{mcptest.Object{Success: true}, []string{"ok"}},
		{mcptest.Object{Success: true, Truncated: true}, []string{"ok", "output_limit"}},
		{fault("exception", "ValueError", "x"), []string{"error"}},
		{fault("exception", "MemoryError", ""), []string{"error", "oom", "limit"}},
		{fault("exception", "BlockingIOError", "[Errno 11] x"), []string{"error", "refused", "limit"}},
		{fault("exception", "PermissionError", "[Errno 1] x"), []string{"error", "refused"}},
		{fault("exception", "RuntimeError", "can't start new thread"), []string{"error", "limit"}},
		{fault("argument", "", "x"), []string{"error"}},
		{fault("memory", "", ""), []string{"oom"}},
		{fault("died", "", ""), []string{"crashed", "protocol"}},
		{fault("sandbox", "", ""), []string{"sandbox", "protocol"}},
		{fault("timeout", "", ""), []string{"timeout"}},
		{fault("busy", "", ""), []string{"busy"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, answered(tt.object).reasons()); diff != "" {
			t.Errorf("%+v: %s", tt.object.Error, diff)
		}
	}
}

// TestJudge has for every condition an answer that breaks it.
func TestJudge(t *testing.T) {
	said := func(text string) outcome { return answered(mcptest.Object{Success: true, Stdout: text}) }
	image := said("x")
	image.Content = append(image.Content, mcptest.Block{Type: "image"})
	hidden := said("x")
	hidden.Meta = json.RawMessage(`{"content_base64":"Y2FuYXJ5"}`)
	bytes := said("x")
	bytes.Line = []byte("\xff")
	wrote := func(path string) outcome {
		o := said("x")
		o.Meta, _ = json.Marshal(map[string]string{"path": path})
		return o
	}
	tests := []struct {
		name, must  string
		good, wrong outcome
	}{
		{"verdict", `{"verdict":"OK"}`, said("V NO\nV OK 1\n"), said("V OK\nV NO\n")},
		{"verdict needs an end", `{"verdict":"OK"}`, said("V OK\n"), answered(fault("timeout", "", ""))},
		{"reason", `{"reason":"ok"}`, said(""), answered(fault("died", "", ""))},
		{"crashed or refused", `{"reason_any":["crashed"]}`, answered(fault("exception", "OSError", "")), answered(fault("exception", "ValueError", ""))},
		{"wall", `{"wall_s_max":3}`, said(""), outcome{said("").Answer, 4 * time.Second}},
		{"size", `{"resp_bytes_max":2000}`, said(""), said(strings.Repeat("x", 3000))},
		{"has", `{"has":"abc"}`, said("abc"), said("ab")},
		{"lacks", `{"lacks":"canary"}`, said("x"), hidden},
		{"lacks_bytes", `{"lacks_bytes":["\udb40\udc69"]}`, said("x"), said("\U000E0069")},
		{"utf8", `{"valid_utf8":true}`, said("x"), bytes},
		{"images", `{"no_image_content":true}`, said("x"), image},
		{"image blocks", `{"image_blocks_max":0}`, said("x"), image},
		{"error", `{"error":true}`, answered(fault("argument", "", "")), said("x")},
		{"no error", `{"error":false}`, said("x"), answered(fault("argument", "", ""))},
		{"inside", `{"error_or_inside":true}`, wrote("a/b"), wrote("/etc/x")},
		{"inside, relative", `{"error_or_inside":true}`, wrote("/tmp/x"), wrote("../x")},
		{"error class", `{"has_error_class":"OSError"}`, answered(fault("exception", "OSError", "")), answered(fault("exception", "KeyError", ""))},
		{"written", `{"written_mib_max":10}`, said("V OK 9\n"), said("V OK 11\n")},
	}
	for _, tt := range tests {
		var m must
		if err := strict([]byte(tt.must), &m); err != nil {
			t.Fatal(err)
		}
		var good, wrong judge
		good.answer(m, tt.good)
		wrong.answer(m, tt.wrong)
		if len(good.faults) > 0 || len(wrong.faults) == 0 {
			t.Errorf("%s: faults of the good answer %q, of the wrong one %q", tt.name, good.faults, wrong.faults)
		}
	}
}

func TestChecksOfTheHost(t *testing.T) {
	dir := t.TempDir()
	r := &round{files: map[string]facts{}, before: map[string]map[string]bool{}, names: map[string]bool{"x": true}}
	file := dir + "/file"
	if err := r.onHost(step{Host: "mkfile", hostCheck: hostCheck{Path: file}}); err != nil {
		t.Fatal(err)
	}
	r.before[dir], _ = snapshot(dir)
	if err := r.fileUnchanged(file); err != nil || len(r.faults) > 0 {
		t.Fatal(err, r.faults)
	}
	if err := os.Chmod(file, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := r.fileUnchanged(file); err != nil || len(r.faults) != 1 {
		t.Errorf("a changed mode: %v, %q", err, r.faults)
	}
	if err := os.WriteFile(dir+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.noNewFiles([]string{dir}); err != nil || len(r.faults) != 2 {
		t.Errorf("a new file: %v, %q", err, r.faults)
	}
	if words := names([]step{{Args: map[string]any{"path": "/tmp/race/d/x"}}}); !words["x"] {
		t.Errorf("names %v", words)
	}
}
