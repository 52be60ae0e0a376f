//go:build linux

package attacks

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/biocypher/biocage-mcp/internal/mcptest"
)

// An outcome is the answer to a call, with what it took.
type outcome struct {
	*mcptest.Answer
	took time.Duration // until the run had ended, however many calls that took
}

// reasons are the words for how a call ended; the first one is the proper one.
func (o outcome) reasons() []string {
	if o.RPC != nil {
		return []string{"error"}
	}
	fault := o.Object.Error
	if fault == nil {
		if o.IsError {
			return o.withLimit("error") // sys.exit(n)
		}
		return o.withLimit("ok")
	}
	switch fault.Kind {
	case "exception":
		return append(o.withLimit("error"), exceptionWords(fault)...)
	case "argument":
		return []string{"error"}
	case "memory":
		return []string{"oom"}
	case "died":
		return []string{"crashed", "protocol"}
	case "sandbox":
		return []string{"sandbox", "protocol"}
	}
	return []string{fault.Kind} // timeout, busy, cancelled
}

func (o outcome) withLimit(word string) []string {
	if o.Object.Truncated {
		return []string{word, "output_limit"}
	}
	return []string{word}
}

// exceptionWords says more of an exception that the attack itself got.
func exceptionWords(f *mcptest.Fault) []string {
	var found []string
	if f.Type == "MemoryError" {
		found = append(found, "oom", "limit")
	}
	if slices.Contains(systemErrors(), f.Type) {
		found = append(found, "refused")
	}
	if f.Type == "BlockingIOError" || limitMessage.MatchString(f.Message) {
		found = append(found, "limit")
	}
	return found
}

// systemErrors are what Python makes of a refused system call.
func systemErrors() []string {
	return []string{
		"OSError", "PermissionError", "ProcessLookupError", "ChildProcessError", "BlockingIOError",
		"FileNotFoundError", "FileExistsError", "InterruptedError", "ConnectionRefusedError", "BrokenPipeError",
	}
}

// limitMessage is what exceptions say when a limit was reached.
var limitMessage = regexp.MustCompile(`can't start new thread|\[Errno (11|12|24|28|122)\]`)

// verdict is the word of the last line "V WORD ...", and what follows it.
func (o outcome) verdict() (word, detail string) {
	for line := range strings.Lines(o.Object.Stdout) {
		if rest, ok := strings.CutPrefix(line, "V "); ok {
			word, detail, _ = strings.Cut(strings.TrimSpace(rest), " ")
		}
	}
	return word, detail
}

// seen is every text that a client could show of an answer.
func (o outcome) seen() string {
	var b strings.Builder
	b.WriteString(o.Text())
	for _, block := range o.Content {
		fmt.Fprintf(&b, "\n%s\n%s", block.URI, block.Name)
	}
	for _, u := range o.Updates {
		b.WriteString("\n" + u.Message)
	}
	if len(o.Meta) > 0 {
		var object any
		if json.Unmarshal(o.Meta, &object) == nil {
			collect(&b, "", object)
		}
	}
	return b.String()
}

func collect(b *strings.Builder, key string, value any) {
	switch v := value.(type) {
	case string:
		b.WriteString("\n" + v)
		if key == "content_base64" {
			if data, err := base64.StdEncoding.DecodeString(v); err == nil {
				b.Write(data)
			}
		}
	case []any:
		for _, item := range v {
			collect(b, key, item)
		}
	case map[string]any:
		for k, item := range v {
			collect(b, k, item)
		}
	}
}

// brief is an answer for a report.
func (o outcome) brief() string {
	text := strings.Join(strings.Fields(o.Text()), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return fmt.Sprintf("%s after %.1f s: %s", o.reasons()[0], o.took.Seconds(), text)
}

// A judge collects what is not as it must be.
type judge struct {
	faults []string
}

func (j *judge) faultf(format string, args ...any) {
	j.faults = append(j.faults, fmt.Sprintf(format, args...))
}

// answer judges the answer to a call.
func (j *judge) answer(m must, o outcome) {
	j.ending(m, o)
	j.content(m, o)
	j.bounds(m, o)
	if m.Error != nil && *m.Error != o.Refused() {
		j.faultf("an error is expected: %t, but the call ended %s", *m.Error, o.brief())
	}
	if m.ErrorOrInside && !o.Refused() && !inside(o) {
		j.faultf("the file is neither refused nor inside: %s", o.brief())
	}
}

func (j *judge) ending(m must, o outcome) {
	got := o.reasons()
	verdicts := m.VerdictAny
	if m.Verdict != "" {
		verdicts = append(words{m.Verdict}, verdicts...)
	}
	wanted := m.ReasonAny
	if m.Reason != "" {
		wanted = append(words{m.Reason}, wanted...)
	}
	if len(wanted) == 0 && len(verdicts) > 0 {
		wanted = words{"ok", "error"}
	}
	if slices.Contains(wanted, "crashed") {
		wanted = append(slices.Clone(wanted), "refused") // it may end the interpreter; it need not
	}
	if len(wanted) > 0 && !slices.ContainsFunc(got, func(word string) bool { return slices.Contains(wanted, word) }) {
		j.faultf("it must end %s, but ended %s", strings.Join(wanted, " or "), o.brief())
		return
	}
	if len(verdicts) > 0 && (got[0] == "ok" || got[0] == "error") {
		if word, detail := o.verdict(); !slices.Contains(verdicts, word) {
			j.faultf("the verdict must be %s, but is %q %.300s (%s)", strings.Join(verdicts, " or "), word, detail, o.brief())
		}
	}
	if m.HasErrorClass != "" && (o.Object.Error == nil || !strings.Contains(o.Object.Error.Type, m.HasErrorClass)) {
		j.faultf("the error must be a %s: %s", m.HasErrorClass, o.brief())
	}
}

func (j *judge) content(m must, o outcome) {
	seen := o.seen()
	for _, want := range m.Has {
		if !strings.Contains(seen, want) {
			j.faultf("the answer must have %q: %s", want, o.brief())
		}
	}
	for _, bad := range slices.Concat(m.Lacks, m.LacksBytes) {
		if strings.Contains(seen, bad) {
			j.faultf("the answer must not have %q: %s", bad, o.brief())
		}
	}
	if m.ValidUTF8 && !utf8.Valid(o.Line) {
		j.faultf("the message is not valid UTF-8")
	}
	if n := o.Count("text"); m.SingleTextBlock && n != 1 {
		j.faultf("there must be one block of text, but there are %d", n)
	}
	if n := o.Count("image"); m.NoImageContent && n > 0 {
		j.faultf("there must be no image, but there are %d", n)
	} else if m.ImageBlocksMax != nil && n > *m.ImageBlocksMax {
		j.faultf("there are %d images, more than %d", n, *m.ImageBlocksMax)
	}
}

func (j *judge) bounds(m must, o outcome) {
	if m.RespBytesMax != nil && len(o.Line) > *m.RespBytesMax {
		j.faultf("the message has %d bytes, more than %d", len(o.Line), *m.RespBytesMax)
	}
	if m.WallSMax != nil && o.took.Seconds() > *m.WallSMax {
		j.faultf("it took %.1f s, more than %g: %s", o.took.Seconds(), *m.WallSMax, o.brief())
	}
	if m.WrittenMiBMax != nil {
		_, detail := o.verdict()
		if n, ok := firstNumber(detail); ok && n > *m.WrittenMiBMax {
			j.faultf("%g MiB were written, more than %g", n, *m.WrittenMiBMax)
		} else if !ok && (o.reasons()[0] == "ok" || o.reasons()[0] == "error") {
			j.faultf("the verdict does not say how much was written: %s", o.brief())
		}
	}
}

var number = regexp.MustCompile(`\d+(\.\d+)?`)

func firstNumber(text string) (float64, bool) {
	n, err := strconv.ParseFloat(number.FindString(text), 64)
	return n, err == nil
}

// inside tells whether the path that a tool reports is one of the sandbox's
// own: relative to the workspace, or below a directory that is in memory.
func inside(o outcome) bool {
	var object struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(o.Meta, &object) != nil || object.Path == "" || bytes.ContainsAny([]byte(object.Path), "\x00\n") {
		return false
	}
	if !path.IsAbs(object.Path) {
		clean := path.Clean(object.Path)
		return clean != ".." && !strings.HasPrefix(clean, "../")
	}
	for _, dir := range []string{"/tmp/", "/work/", "/workspace/", "/dev/shm/"} {
		if strings.HasPrefix(path.Clean(object.Path), dir) {
			return true
		}
	}
	return false
}
