package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// answered is a python_run with every field set.
func answered() *outcome {
	return &outcome{
		call: "python_run", raw: []byte(`{"a":"x"}`), text: "Failed: shown", isError: true, seconds: 3, progress: 2,
		value: "read", owner: "1000:100",
		run: &runFields{
			Stdout: "out one\n", Stderr: "err one\n", ExitCode: 1, Result: new("'v'"), Truncated: true,
			Error: &runError{Kind: "memory", Type: "MemoryError", Message: "too much", Traceback: "line here", Line: 4, Hint: "less"},
		},
	}
}

func TestMatchers(t *testing.T) {
	var good bytes.Buffer
	if err := png.Encode(&good, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	pictured := func(mime string, data []byte) *outcome {
		return &outcome{run: &runFields{Images: 1}, images: []picture{{mime: mime, data: data}}}
	}
	others := []*outcome{answered(), {run: &runFields{Result: new("'w'")}}, {run: &runFields{}}}
	for _, tt := range []struct {
		expect string
		out    *outcome
		holds  bool
	}{
		{`{}`, answered(), true},
		{`{"success":false,"exit_code":1,"truncated":true}`, answered(), true},
		{`{"success":true}`, answered(), false},
		{`{"exit_code":0}`, answered(), false},
		{`{"truncated":false}`, answered(), false},
		{`{"success":true}`, &outcome{failure: "no such tool"}, false},
		{`{"success":"yes"}`, answered(), false},
		{`{"stdout":"out one\n","stderr":"err one\n"}`, answered(), true},
		{`{"stdout":"out one"}`, answered(), false},
		{`{"stderr":""}`, answered(), false},
		{`{"stdout_contains":["out","one"],"stderr_contains":["err"],"output_contains":["out","err"]}`, answered(), true},
		{`{"stdout_contains":["out","err"]}`, answered(), false},
		{`{"stderr_contains":["out"]}`, answered(), false},
		{`{"output_contains":["out","two"]}`, answered(), false},
		{`{"stdout_not_contains":["err"],"stderr_not_contains":["out"]}`, answered(), true},
		{`{"stdout_not_contains":["two","one"]}`, answered(), false},
		{`{"stderr_not_contains":["one"]}`, answered(), false},
		{`{"stdout_matches":"^out .*\\n$","result_matches":"v"}`, answered(), true},
		{`{"stdout_matches":"^one"}`, answered(), false},
		{`{"result_matches":"("}`, answered(), false},
		{`{"occurrences":{"one":2,"two":0}}`, answered(), true},
		{`{"occurrences":{"one":1}}`, answered(), false},
		{`{"result":"'v'","result_in":["'u'","'v'"],"result_contains":"v","result_max_bytes":3}`, answered(), true},
		{`{"result":null}`, answered(), false},
		{`{"result":null}`, others[2], true},
		{`{"result":"'v'"}`, others[2], false},
		{`{"result":"v"}`, answered(), false},
		{`{"result_in":["'u'"]}`, answered(), false},
		{`{"result_contains":["v","u"]}`, answered(), false},
		{`{"result_contains":["v"]}`, others[2], false},
		{`{"result_max_bytes":2}`, answered(), false},
		{`{"result_differs_from":1}`, answered(), true},
		{`{"result_differs_from":0}`, answered(), false},
		{`{"result_differs_from":2}`, answered(), false},
		{`{"result_differs_from":9}`, answered(), false},
		{`{"error_type":"MemoryError","error_type_in":["MemoryError"],"error_class":"oom","error_class_in":["died","oom"]}`, answered(), true},
		{`{"error_type":"OSError"}`, answered(), false},
		{`{"error_type_in":["OSError"]}`, answered(), false},
		{`{"error_class":"memory"}`, answered(), false},
		{`{"error_class_in":["died"]}`, answered(), false},
		{`{"error_type":""}`, others[2], false},
		{`{"error_line":4,"error_line_in":[3,4],"error_message_contains":"much","hint":true}`, answered(), true},
		{`{"error_line":3}`, answered(), false},
		{`{"error_line_in":[3]}`, answered(), false},
		{`{"error_message_contains":["too","few"]}`, answered(), false},
		{`{"hint":false}`, answered(), false},
		{`{"traceback_contains":["line","here"],"traceback_not_contains":["there"]}`, answered(), true},
		{`{"traceback_contains":["there"]}`, answered(), false},
		{`{"traceback_not_contains":["line"]}`, answered(), false},
		{`{"contains":["shown","out one","line here","less","'v'"],"not_contains":["canary"]}`, answered(), true},
		{`{"contains":["canary"]}`, answered(), false},
		{`{"not_contains":["err one"]}`, answered(), false},
		{`{"tool_error":true,"tool_error_contains":"shown"}`, answered(), true},
		{`{"tool_error":false}`, answered(), false},
		{`{"tool_error":true,"tool_error_contains":["gone"]}`, &outcome{failure: "gone"}, true},
		{`{"tool_error_contains":"shown"}`, &outcome{failure: "gone"}, false},
		{`{"valid_json_utf8":true}`, answered(), true},
		{`{"valid_json_utf8":true}`, &outcome{raw: []byte(`"\udc00"`)}, false},
		{`{"response_max_bytes":9,"max_seconds":3,"progress_min":2}`, answered(), true},
		{`{"response_max_bytes":8}`, answered(), false},
		{`{"max_seconds":2.5}`, answered(), false},
		{`{"progress_min":3}`, answered(), false},
		{`{"images":0}`, answered(), true},
		{`{"images":1,"images_min":1,"image_valid":true,"image_max_bytes":1000}`, pictured("image/png", good.Bytes()), true},
		{`{"images":2}`, pictured("image/png", good.Bytes()), false},
		{`{"images_min":2}`, pictured("image/png", good.Bytes()), false},
		{`{"image_valid":true}`, pictured("image/jpeg", good.Bytes()), false},
		{`{"image_valid":true}`, pictured("image/png", good.Bytes()[:20]), false},
		{`{"image_max_bytes":10}`, pictured("image/png", good.Bytes()), false},
		{`{"state_kept":true,"restarted":false}`, answered(), true},
		{`{"state_kept":true}`, &outcome{run: &runFields{Restarted: true}}, false},
		{`{"restarted":false}`, &outcome{run: &runFields{Restarted: true}}, false},
		{`{"restarted":true}`, &outcome{run: &runFields{Restarted: true}}, true},
		{`{"value":"read","owner":"1000:100"}`, answered(), true},
		{`{"value":true}`, answered(), false},
		{`{"owner":1000}`, answered(), true},
		{`{"owner":100}`, answered(), false},
		{`{"any_of":[{"success":true},{"error_class":"oom"}]}`, answered(), true},
		{`{"any_of":[{"success":true},{"error_class":"died"}]}`, answered(), false},
		{`{"any_of":[{"success":false}],"stdout":""}`, answered(), false},
	} {
		var e expect
		if err := json.Unmarshal([]byte(tt.expect), &e); err != nil {
			t.Fatal(err)
		}
		c := check{out: tt.out, step: func(i int) *outcome {
			if i < len(others) {
				return others[i]
			}
			return nil
		}}
		if err := e.verify(&c); (err == nil) != tt.holds {
			t.Errorf("%s holds: %t; error: %v", tt.expect, err == nil, err)
		}
	}
}

func TestResultsDistinct(t *testing.T) {
	for _, tt := range []struct {
		values []*string
		want   bool
	}{
		{[]*string{new("1"), new("2")}, true},
		{[]*string{new("1"), new("2"), new("1")}, false},
		{[]*string{new("1"), nil}, false},
	} {
		var group []*outcome
		for _, value := range tt.values {
			group = append(group, &outcome{run: &runFields{Result: value}})
		}
		if err := distinct(&check{group: group}, true); (err == nil) != tt.want {
			t.Errorf("%s: %v", show(tt.values), err)
		}
	}
}

// A loss may be told by the call that it came with or by the next python_run.
func TestRestartedIsToldOnceOfTwice(t *testing.T) {
	told, quiet := &outcome{run: &runFields{Restarted: true}}, &outcome{run: &runFields{}}
	for _, tt := range []struct {
		name             string
		expect           string
		before, at, next *outcome
		holds            bool
	}{
		{"at once", `{"restarted":true}`, nil, told, nil, true},
		{"by the next", `{"restarted":true}`, nil, quiet, told, true},
		{"already", `{"restarted":true}`, told, quiet, nil, true},
		{"never", `{"restarted":true}`, quiet, quiet, quiet, false},
		{"in an alternative", `{"any_of":[{"success":true},{"restarted":true}]}`, nil, quiet, told, true},
		{"in no alternative", `{"any_of":[{"success":true},{"restarted":true}]}`, nil, quiet, quiet, false},
		{"another alternative holds", `{"any_of":[{"restarted":true},{"success":false}]}`, nil, quiet, quiet, true},
	} {
		var e expect
		if err := json.Unmarshal([]byte(tt.expect), &e); err != nil {
			t.Fatal(err)
		}
		r, p := &runner{}, &party{before: tt.before}
		tt.at.call = "python_run"
		r.judge(&step{Expect: e}, "step", answers{party: p, all: []*outcome{tt.at}})
		if tt.next != nil {
			r.settle(p, tt.next)
		}
		if (len(r.fails) == 0) != tt.holds || p.open != nil {
			t.Errorf("%s: faults %v, still open %t", tt.name, r.fails, p.open != nil)
		}
	}
}

func TestSoundness(t *testing.T) {
	sound := func() *outcome {
		return &outcome{raw: []byte(`{}`), text: "Done", run: &runFields{Success: true}}
	}
	for name, spoil := range map[string]func(*outcome){
		"too large":           func(o *outcome) { o.raw = []byte(`"` + strings.Repeat("x", maxAnswer) + `"`) },
		"no UTF-8":            func(o *outcome) { o.raw = []byte("\"\xff\"") },
		"no text":             func(o *outcome) { o.text = "" },
		"isError and success": func(o *outcome) { o.isError = true },
		"failure, no error":   func(o *outcome) { o.run.Success, o.isError = false, true },
		"images miscounted":   func(o *outcome) { o.run.Images = 1 },
	} {
		out := sound()
		if err := out.soundness(); err != nil {
			t.Fatal(err)
		}
		spoil(out)
		if out.soundness() == nil {
			t.Errorf("%s: passes", name)
		}
	}
}

// The client must tell every fault of a server's lines.
func TestClientSeesStrayLines(t *testing.T) {
	script := `read init
echo '{"jsonrpc":"2.0","id":1,"result":{}}'
echo 'Traceback: something printed'
echo '{"jsonrpc":"2.0","id":1,"result":{}}'
echo '{"jsonrpc":"2.0","id":77,"result":{}}'
echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}'
read initialized; read call
echo '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hello"}]}}'
printf '{"half":'`
	c, err := connect("A", []string{"/bin/sh", "-c", script}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer c.kill()
	id, err := c.sendTool("session_info", []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.await(id, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	out, err := readAnswer("session_info", got)
	if err != nil || out.text != "hello" || c.progressOf(id) != 1 {
		t.Errorf("answer %+v, %d progress notes, error %v", out, c.progressOf(id), err)
	}
	if !c.exits(10 * time.Second) {
		t.Fatal("the script did not end")
	}
	if _, err := c.await(99, time.Second); err == nil {
		t.Error("an answer came from a server that is gone")
	}
	stray := strings.Join(c.strayLines(), "\n")
	for _, want := range []string{"something printed", "a second answer", "nobody asked for", `{"half":`} {
		if !strings.Contains(stray, want) {
			t.Errorf("%s is not among the stray lines:\n%s", want, stray)
		}
	}
}

func TestHostVerbs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	do := func(verb string, args map[string]any) *outcome {
		t.Helper()
		raw := map[string]json.RawMessage{}
		for name, value := range args {
			raw[name] = json.RawMessage(show(value))
		}
		got, err := harnessVerbs()[verb](nil, &step{Call: verb, Args: raw})
		if err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		return got.first
	}
	inode := func(name string) string {
		info, err := os.Stat(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", info.Sys())
	}
	do("h.host_write", map[string]any{"path": at("a/b.txt"), "content": "one", "mode": "0600"})
	if info, err := os.Stat(at("a/b.txt")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	first := inode("a/b.txt")
	do("h.host_replace", map[string]any{"path": at("a/b.txt"), "content": "two"})
	if inode("a/b.txt") == first {
		t.Error("host_replace wrote in place")
	}
	if got := do("h.host_read", map[string]any{"path": at("a/b.txt")}); got.value != "two" {
		t.Errorf("read %v", got.value)
	}
	do("h.host_truncate", map[string]any{"path": at("big"), "size": 1 << 40})
	do("h.host_many", map[string]any{"dir": at("many"), "count": 3})
	do("h.host_symlink", map[string]any{"path": at("link"), "target": "/nowhere"})
	do("h.host_mkfifo", map[string]any{"path": at("pipe")})
	do("h.host_mkdir", map[string]any{"path": at("x/y")})
	for _, name := range []string{"big", "many/f00002.txt", "link", "pipe", "x/y"} {
		if got := do("h.host_exists", map[string]any{"path": at(name)}); got.value != true {
			t.Errorf("%s is not there", name)
		}
	}
	do("h.host_delete", map[string]any{"path": at("big")})
	if got := do("h.host_exists", map[string]any{"path": at("big")}); got.value != false {
		t.Error("big is still there")
	}
	if got := do("h.host_stat", map[string]any{"path": at("pipe")}); got.owner != fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()) {
		t.Errorf("owner %s", got.owner)
	}
}
