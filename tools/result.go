package tools

import (
	"fmt"
	"strings"

	"github.com/biocypher/biocage-mcp/session"
)

const (
	maxLinks    = 20      // resource links
	maxNamed    = 8       // files named in the text
	maxFiles    = 200     // files in the result object
	maxObject   = 400_000 // bytes of the result object's JSON
	maxDecisive = 6_000   // bytes of value or traceback while more text follows
)

// runAnswer turns a run's result into an answer.
func (t *toolset) runAnswer(res session.RunResult) answer {
	clean(&res)
	var notes []string
	room := maxAnswer - maxText - maxLinks*600 - t.objectCopies()*min(jsonSize(res), maxObject)
	images, imageNotes := fitImages(res.Displays, room)
	res.Images = len(images)
	notes = append(notes, imageNotes...)
	shown, leftOut := shownText(res.Displays)
	if leftOut > 0 && res.Result == nil && shown == "" {
		notes = append(notes, fmt.Sprintf("%d displayed objects were left out: only text, PNG and JPEG travel; save others as files.", leftOut))
	}
	if len(res.Files) > maxFiles {
		notes = append(notes, fmt.Sprintf("%d more files were made or changed; file_list shows them.", len(res.Files)-maxFiles))
		res.Files = res.Files[:maxFiles]
	}
	res.Notes = append(res.Notes, notes...)
	t.boundObject(&res)
	return answer{
		text:   runText(res, shown),
		object: res,
		images: images,
		links:  fileLinks(res),
		failed: !res.Success,
	}
}

// clean sanitizes every text of the result and fills what JSON must not show
// as null.
func clean(res *session.RunResult) {
	res.Stdout, res.Stderr = Sanitize(res.Stdout), Sanitize(res.Stderr)
	res.LateOutput, res.RestartReason = Sanitize(res.LateOutput), Sanitize(res.RestartReason)
	if res.Result != nil {
		value := Sanitize(*res.Result)
		res.Result = &value
	}
	if res.Error != nil {
		e := *res.Error
		e.Type, e.Message, e.Hint = Sanitize(e.Type), Sanitize(e.Message), Sanitize(e.Hint)
		e.Traceback = Sanitize(e.Traceback)
		res.Error = &e
	}
	spool := make(map[string]string, len(res.Spool))
	for name, path := range res.Spool {
		spool[name] = oneLine(Sanitize(path))
	}
	res.Spool = spool
	notes := make([]string, len(res.Notes))
	for i, note := range res.Notes {
		notes[i] = Sanitize(note)
	}
	res.Notes = notes
	files := make([]session.FileRef, len(res.Files))
	for i, f := range res.Files {
		f.Path, f.MIMEType = Sanitize(f.Path), safeMIME(f.MIMEType)
		files[i] = f
	}
	res.Files = files
}

// boundObject cuts the result object's texts until its JSON is small enough,
// however badly its characters escape.
func (t *toolset) boundObject(res *session.RunResult) {
	limit := maxObject / t.objectCopies()
	for keep := 128 << 10; jsonSize(res) > limit && keep > 256; keep /= 2 {
		res.Truncated = true
		res.Stdout = cutMiddle(res.Stdout, keep, res.Spool["stdout"])
		res.Stderr = cutMiddle(res.Stderr, keep, res.Spool["stderr"])
		res.LateOutput = cutMiddle(res.LateOutput, keep, "")
		if res.Result != nil {
			value := cutMiddle(*res.Result, keep, res.Spool["result"])
			res.Result = &value
		}
		if res.Error != nil {
			res.Error.Message = cutMiddle(res.Error.Message, keep, "")
			res.Error.Traceback = cutMiddle(res.Error.Traceback, keep, "")
		}
		res.Files = res.Files[:min(len(res.Files), max(keep/1024, maxLinks))]
	}
}

// shownText joins the displays that are text. HTML and SVG never travel.
func shownText(displays []session.Display) (text string, leftOut int) {
	var shown []string
	for _, d := range displays {
		switch d.MIME {
		case "text/plain", "text/markdown", "text/latex", "application/json":
			shown = append(shown, Sanitize(string(d.Data)))
		default:
			if !isImage(d.MIME) {
				leftOut++
			}
		}
	}
	return strings.Join(shown, "\n"), leftOut
}

// fileLinks makes links to the files of a run, and to the whole of what was
// cut.
func fileLinks(res session.RunResult) []link {
	var links []link
	for _, name := range []string{"stdout", "stderr", "result"} {
		if path := res.Spool[name]; path != "" {
			// The second slash marks a path that is absolute in the sandbox.
			size, known := res.SpoolSizes[name]
			if !known {
				size = -1
			}
			links = append(links, link{uri: resourceURI(res.Session, path), name: "whole " + name, mime: textMIME, size: size})
		}
	}
	for _, f := range res.Files[:min(len(res.Files), maxLinks-len(links))] {
		links = append(links, link{uri: f.URI, name: shorten(f.Path, 200), mime: f.MIMEType, size: f.Size})
	}
	return links
}

// runText is the text block of a run: first what decides, then what was
// written.
func runText(res session.RunResult, shown string) string {
	w := &textWriter{}
	w.line(headline(res))
	if res.Error != nil {
		w.line(shorten(res.Error.Hint, 1000))
	}
	if res.Restarted {
		w.line("The interpreter was restarted: " + shorten(strings.TrimSuffix(res.RestartReason, "."), 500) + ".")
	}
	for _, note := range res.Notes[:min(len(res.Notes), 5)] {
		w.line(shorten(note, 300))
	}
	w.line(cutLine(res))
	if res.Images > 0 {
		w.line(fmt.Sprintf("Images below: %d.", res.Images))
	}
	w.line(filesLine(res.Files))

	rest := len(res.Stdout) + len(res.Stderr) + len(shown)
	decisive := maxDecisive
	if rest <= maxText/2 {
		decisive = maxText / 3
	}
	if res.Result != nil {
		w.value("Result", *res.Result, decisive, res.Spool["result"])
	}
	if res.Error != nil && res.Error.Traceback != "" {
		w.section("Traceback", res.Error.Traceback, decisive, "")
	}
	w.section("Displayed", shown, maxText/8, "")
	w.section("stderr", res.Stderr, maxText/5, res.Spool["stderr"])
	w.section("Late output of earlier calls", res.LateOutput, maxText/10, "")
	w.section("stdout", res.Stdout, maxText-w.size()-200, res.Spool["stdout"])
	return w.String()
}

// headline is the first line: how the run stands.
func headline(res session.RunResult) string {
	took := seconds(res.ExecutionTime)
	switch {
	case res.Status == session.StatusRunning:
		return fmt.Sprintf("Still running after %s (run_id %q).", took, res.RunID)
	case res.Error == nil && res.Success:
		return "Done in " + took + "."
	case res.Error == nil:
		return fmt.Sprintf("Failed with exit code %d after %s.", res.ExitCode, took)
	}
	words := map[string]string{
		session.KindTimeout: "Timed out", session.KindMemory: "Out of memory", session.KindDied: "The interpreter died",
		session.KindCancelled: "Cancelled", session.KindBusy: "Busy", session.KindSandbox: "Sandbox failure",
	}
	word := words[res.Error.Kind]
	if word == "" {
		word = "Failed"
	}
	message := shorten(strings.TrimSuffix(strings.TrimSpace(res.Error.Message), "."), 600)
	if res.Error.Kind == session.KindException && res.Error.Type != "" {
		message = strings.TrimSuffix(shorten(res.Error.Type, 100)+": "+message, ": ")
	}
	where := ""
	if res.Error.Line > 0 {
		where = fmt.Sprintf("line %d, ", res.Error.Line)
	}
	return fmt.Sprintf("%s: %s (%safter %s)", word, message, where, took)
}

// cutLine says where the whole of what was cut is, before a host cuts again.
func cutLine(res session.RunResult) string {
	var items []string
	for _, name := range []string{"stdout", "stderr", "result"} {
		if path := res.Spool[name]; path != "" {
			items = append(items, "the whole "+name+" is in "+path)
		}
	}
	switch {
	case len(items) > 0:
		return "Cut here: " + strings.Join(items, ", ") + " (file_read)."
	case res.Truncated:
		return "Some text was cut in its middle."
	}
	return ""
}

func filesLine(files []session.FileRef) string {
	if len(files) == 0 {
		return ""
	}
	var items []string
	for _, f := range files[:min(len(files), maxNamed)] {
		items = append(items, fmt.Sprintf("%s (%s)", shorten(oneLine(f.Path), 100), bytesText(f.Size)))
	}
	if more := len(files) - len(items); more > 0 {
		items = append(items, fmt.Sprintf("%d more", more))
	}
	return "Files made or changed: " + strings.Join(items, ", ") + "."
}

// A textWriter builds a text block of lines and labelled sections.
type textWriter struct{ b strings.Builder }

func (w *textWriter) String() string { return strings.TrimRight(w.b.String(), "\n") }

func (w *textWriter) size() int { return w.b.Len() }

func (w *textWriter) line(text string) {
	if text != "" {
		w.b.WriteString(text + "\n")
	}
}

// value is a section that stays on one line when it is one.
func (w *textWriter) value(label, text string, limit int, whole string) {
	if strings.Contains(text, "\n") || len(text) > 200 {
		w.section(label, text, limit, whole)
		return
	}
	w.line(label + ": " + text)
}

func (w *textWriter) section(label, text string, limit int, whole string) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		w.b.WriteString(label + ":\n" + cutMiddle(text, limit, whole) + "\n")
	}
}
