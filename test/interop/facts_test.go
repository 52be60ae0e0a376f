package interop

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image/png"
	"testing"
)

// An answer is what a client got for a tool call.
type answer struct {
	IsError bool            `json:"is_error"`
	Texts   []string        `json:"texts"`
	Images  []image         `json:"images"`
	Links   []string        `json:"links"`
	Result  json.RawMessage `json:"result"`
	Size    int             `json:"size"`
	Seconds float64         `json:"seconds"`
}

type image struct {
	MIME string `json:"mime"`
	Data string `json:"data"`
}

// A run is the result object of python_run, by the names that are promised.
type run struct {
	Success   bool    `json:"success"`
	Status    string  `json:"status"`
	RunID     string  `json:"run_id"`
	Stdout    string  `json:"stdout"`
	ExitCode  int     `json:"exit_code"`
	Result    *string `json:"result"`
	Images    int     `json:"images"`
	Truncated bool    `json:"truncated"`
	Restarted bool    `json:"restarted"`
	Reason    string  `json:"restart_reason"`
	Session   string  `json:"session"`
	Error     *struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
	} `json:"error"`
	Files []struct {
		Path string `json:"path"`
		URI  string `json:"uri"`
	} `json:"files"`
}

// maxAnswer is what no answer may reach, images included.
const maxAnswer = 900_000

// parse reads facts; a scenario that failed on the client's side fails here.
func parse[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var trouble struct {
		Failed string `json:"failed"`
	}
	if err := json.Unmarshal(raw, &trouble); err == nil && trouble.Failed != "" {
		t.Fatalf("the client failed:\n%s", trouble.Failed)
	}
	var facts T
	if err := json.Unmarshal(raw, &facts); err != nil {
		t.Fatalf("unreadable facts: %v\n%.2000s", err, raw)
	}
	return facts
}

// run reads the result object, and checks what holds for every answer.
func (a answer) run(t *testing.T) run {
	t.Helper()
	if len(a.Texts) != 1 || a.Texts[0] == "" {
		t.Errorf("the answer has %d text blocks, not one", len(a.Texts))
	}
	if a.Size >= maxAnswer {
		t.Errorf("the answer has %d bytes, not under %d", a.Size, maxAnswer)
	}
	var r run
	if err := json.Unmarshal(a.Result, &r); err != nil || r.Status == "" {
		t.Fatalf("no result object in _meta (%v): %.300s", err, a.Result)
	}
	if r.Session == "" {
		t.Error("the result does not name the session")
	}
	if r.Status == "done" && a.IsError == r.Success {
		t.Errorf("isError is %v though success is %v", a.IsError, r.Success)
	}
	return r
}

// value checks that the code ran, in the same interpreter, and gave want.
func (a answer) value(t *testing.T, want string) {
	t.Helper()
	r := a.run(t)
	if !r.Success || r.ExitCode != 0 || r.Result == nil || *r.Result != want || r.Restarted {
		t.Errorf("the value is not %s: %.1000s", want, a.Result)
	}
}

// failure checks how the code failed.
func (a answer) failure(t *testing.T, kind string, exitCode int, restarted bool) {
	t.Helper()
	r := a.run(t)
	switch {
	case r.Error == nil || r.Error.Kind != kind || r.ExitCode != exitCode || r.Restarted != restarted:
		t.Errorf("not %s with exit code %d, restarted %v: %.1000s", kind, exitCode, restarted, a.Result)
	case r.Error.Hint == "":
		t.Errorf("no hint says what to do after %s", kind)
	case restarted && r.Reason == "":
		t.Error("nothing says why the interpreter was replaced")
	}
}

// picture checks that an image block is a valid PNG of some size.
func (i image) picture(t *testing.T) {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(i.Data)
	if err != nil {
		t.Fatalf("the image is not base64: %v", err)
	}
	if i.MIME != "image/png" {
		t.Errorf("the image is %s, not image/png", i.MIME)
	}
	shown, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("the image is no valid PNG: %v", err)
	}
	if size := shown.Bounds().Size(); size.X < 100 || size.Y < 100 {
		t.Errorf("the image has %v", size)
	}
}
