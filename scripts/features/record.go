package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// An event is a line of go test -json; cmd/test2json documents it.
type event struct {
	Action  string `json:"Action"`
	Package string `json:"Package"`
	Test    string `json:"Test"`
	Output  string `json:"Output,omitempty"`
}

// record copies the end of every test to kept, and prints to shown what a
// person wants to see: the packages' lines, all that failed tests wrote, which
// tests were skipped and why, and how many ended how. With
// noSkips a test that was skipped is an error.
func record(events io.Reader, kept, shown io.Writer, noSkips bool) error {
	r := &recorder{written: map[string]*strings.Builder{}, ends: map[string]int{}, kept: json.NewEncoder(kept), shown: shown}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := r.line(line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			err := r.show(fmt.Sprintf("%d tests passed, %d failed, %d skipped\n", r.ends["pass"], r.ends["fail"], r.ends["skip"]))
			if noSkips && r.ends["skip"] > 0 {
				err = errors.Join(err, errSkipped)
			}
			return err
		}
		if err != nil {
			return err
		}
	}
}

var errSkipped = errors.New("tests were skipped where nothing may be missing; their lines above say what is")

// notApplying begins what a test says that means nothing on an engine, so has
// no end to be kept: it is told apart from one that was skipped.
const notApplying = "does not apply: "

type recorder struct {
	written map[string]*strings.Builder // by package and test
	ends    map[string]int              // how many tests ended how
	kept    *json.Encoder
	shown   io.Writer
}

func (r *recorder) line(text string) error {
	var e event
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil {
		return r.show(text) // of the go command itself
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		return r.show(e.Output)
	case "output":
		if e.Test == "" {
			return r.packageLine(e.Output)
		}
		if r.written[key] == nil {
			r.written[key] = &strings.Builder{}
		}
		r.written[key].WriteString(e.Output)
		if _, text, ok := strings.Cut(e.Output, notApplying); ok {
			return r.show(notApplying + text)
		}
	case "pass", "skip", "fail":
		return r.end(e, key)
	}
	return nil
}

// packageLine leaves out what -json adds to go test's usual lines.
func (r *recorder) packageLine(text string) error {
	if text == "PASS\n" || strings.Contains(text, "[no test files]") {
		return nil
	}
	return r.show(text)
}

func (r *recorder) end(e event, key string) error {
	why := ""
	if e.Action == "skip" && r.written[key] != nil {
		why = reason(r.written[key].String())
	}
	if e.Action == "fail" {
		if err := r.showWritten(e, key); err != nil {
			return err
		}
	}
	delete(r.written, key)
	if e.Test == "" {
		return nil
	}
	r.ends[e.Action]++
	err := r.kept.Encode(event{Action: e.Action, Package: e.Package, Test: e.Test})
	if e.Action == "skip" {
		err = errors.Join(err, r.show("skipped: "+e.Package+" "+e.Test+why+"\n"))
	}
	return err
}

// showWritten shows what a failed test wrote. A package that ends in the
// middle of tests leaves theirs behind.
func (r *recorder) showWritten(e event, key string) error {
	for name, text := range r.written {
		if name != key && (e.Test != "" || !strings.HasPrefix(name, e.Package+" ")) {
			continue
		}
		if err := r.show(text.String()); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) show(text string) error {
	_, err := io.WriteString(r.shown, text)
	return err
}

// reason is what a skipped test said: the line before the one that tells the
// skip, without the place in the source.
func reason(written string) string {
	for line := range strings.Lines(written) {
		line = strings.TrimSpace(line)
		if _, text, ok := strings.Cut(line, "_test.go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			return ": " + text
		}
	}
	return ""
}
