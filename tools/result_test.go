package tools

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/session"
)

func TestRunText(t *testing.T) {
	tests := []struct {
		name string
		res  session.RunResult
		want string
	}{
		{
			"a value",
			session.RunResult{Success: true, Status: "done", ExecutionTime: 0.124, Result: new("42")},
			"Done in 0.12 s.\nResult: 42",
		},
		{
			"nothing at all",
			session.RunResult{Success: true, Status: "done", ExecutionTime: 0.001},
			"Done in under 0.01 s.",
		},
		{
			"output and value",
			session.RunResult{Success: true, Status: "done", ExecutionTime: 12.4, Stdout: "a\nb\n", Stderr: "warn\n", Result: new("1\n2")},
			"Done in 12 s.\nResult:\n1\n2\nstderr:\nwarn\nstdout:\na\nb",
		},
		{
			"an exception",
			session.RunResult{
				Status: "done", ExitCode: 1, ExecutionTime: 0.5,
				Error: &session.RunError{Kind: "exception", Type: "ZeroDivisionError", Message: "division by zero", Line: 3, Traceback: "Traceback…\nZeroDivisionError: division by zero", Hint: "Check the divisor."},
			},
			"Failed: ZeroDivisionError: division by zero (line 3, after 0.50 s)\nCheck the divisor.\nTraceback:\nTraceback…\nZeroDivisionError: division by zero",
		},
		{
			"an exception without a message",
			session.RunResult{Status: "done", Error: &session.RunError{Kind: "exception", Type: "AssertionError"}},
			"Failed: AssertionError (after under 0.01 s)",
		},
		{
			"a time limit with a restart",
			session.RunResult{
				Status: "done", ExitCode: 124, ExecutionTime: 30, Restarted: true, RestartReason: "the code could not be interrupted",
				Error: &session.RunError{Kind: "timeout", Type: "TimeoutError", Message: "The code was stopped at its limit of 30 s.", Hint: "Variables are gone."},
			},
			"Timed out: The code was stopped at its limit of 30 s (after 30 s)\nVariables are gone.\nThe interpreter was restarted: the code could not be interrupted.",
		},
		{
			"still running",
			session.RunResult{Success: true, Status: "running", RunID: "r3", ExecutionTime: 45, Stdout: "x\n", Notes: []string{"Call python_wait."}},
			"Still running after 45 s (run_id \"r3\").\nCall python_wait.\nstdout:\nx",
		},
		{
			"files and late output",
			session.RunResult{
				Success: true, Status: "done", LateOutput: "tick\n",
				Files: []session.FileRef{{Path: "a.csv", Size: 1200, MIMEType: "text/csv", URI: "sandbox://s/a.csv"}, {Path: "b\n.txt", Size: 3, URI: "sandbox://s/b"}},
			},
			"Done in under 0.01 s.\nFiles made or changed: a.csv (1.2 kB), b .txt (3 bytes).\nLate output of earlier calls:\ntick",
		},
		{
			"cut output",
			session.RunResult{Success: true, Status: "done", Stdout: "a\n[... 9 bytes left out ...]\nz\n", Truncated: true, Spool: map[string]string{"stdout": "/tmp/s"}},
			"Done in under 0.01 s.\nCut here: the whole stdout is in /tmp/s (file_read).\nstdout:\na\n[... 9 bytes left out ...]\nz",
		},
		{
			"a hostile value",
			session.RunResult{Success: true, Status: "done", Result: new("\x1b[2Jx\u202ey")},
			"Done in under 0.01 s.\nResult: x\\u{202E}y",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := newToolset(nil, Options{}).runAnswer(tt.res)
			if diff := cmp.Diff(tt.want, got.text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if got.failed == tt.res.Success {
				t.Errorf("failed = %v with success %v", got.failed, tt.res.Success)
			}
		})
	}
}

func TestRunTextIsBoundedAndDecisiveFirst(t *testing.T) {
	long := strings.Repeat("0123456789abcdef é\n", 6000)
	res := session.RunResult{
		Status: "done", ExitCode: 1, Stdout: long, Stderr: long, LateOutput: long, Restarted: true, RestartReason: long,
		Error:    &session.RunError{Kind: "exception", Type: "ValueError", Message: "THE MESSAGE " + long, Traceback: "HEAD\n" + long + "THE LAST LINE", Hint: "THE HINT " + long},
		Spool:    map[string]string{"stdout": "/tmp/.biocage/7/stdout"},
		Displays: []session.Display{{MIME: "text/plain", Data: []byte(long)}},
	}
	for i := range 300 {
		res.Files = append(res.Files, session.FileRef{Path: fmt.Sprintf("%d-%s", i, long[:3000]), URI: "sandbox://s/x"})
		res.Notes = append(res.Notes, long)
	}
	ts := newToolset(nil, Options{Structured: true})
	a := ts.runAnswer(res)
	if len(a.text) > maxText || !utf8.ValidString(a.text) {
		t.Errorf("the text has %d bytes (bound %d), UTF-8 %v", len(a.text), maxText, utf8.ValidString(a.text))
	}
	head := cutEnd(a.text, 8<<10)
	for _, want := range []string{"Failed: ValueError: THE MESSAGE", "THE HINT", "restarted", "Traceback:\nHEAD"} {
		if !strings.Contains(head, want) {
			t.Errorf("the first 8 kB lack %q", want)
		}
	}
	for _, want := range []string{"THE LAST LINE", "bytes left out; read the whole with file_read path=/tmp/.biocage/7/stdout"} {
		if !strings.Contains(a.text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if _, size := ts.result(t.Context(), a); size > maxAnswer {
		t.Errorf("the answer has %d bytes", size)
	}
	if object := a.object.(session.RunResult); !object.Truncated || len(object.Files) > maxFiles {
		t.Errorf("truncated %v, %d files", object.Truncated, len(object.Files))
	}
	if len(a.links) > maxLinks || a.links[0].uri != "sandbox:////tmp/.biocage/7/stdout" {
		t.Errorf("%d links, the first is %v", len(a.links), a.links[0])
	}
}

// Every character of the result object may escape to six bytes, twice.
func TestAnswerIsBoundedHoweverItEscapes(t *testing.T) {
	long := strings.Repeat("<\"\\", 400_000)
	ts := newToolset(nil, Options{Structured: true})
	a := ts.runAnswer(session.RunResult{Success: true, Status: "done", Stdout: long, Stderr: long, Result: &long})
	r, _ := ts.result(t.Context(), a)
	if size := jsonSize(r); size > maxAnswer || r.IsError {
		t.Errorf("the answer has %d bytes, error %v", size, r.IsError)
	}
}

func noise(t *testing.T, w, h int) image.Image {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = uint8(random.Uint32())
	}
	return img
}

func encodePNG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestImagesFitTheAnswer(t *testing.T) {
	small := image.NewRGBA(image.Rect(0, 0, 20, 10))
	small.Set(3, 3, color.White)
	smallPNG := encodePNG(t, small)
	var smallJPEG bytes.Buffer
	if err := jpeg.Encode(&smallJPEG, small, nil); err != nil {
		t.Fatal(err)
	}
	large := encodePNG(t, noise(t, 1000, 800)) // 3.2 MB that no PNG makes smaller
	wide := encodePNG(t, image.NewGray(image.Rect(0, 0, maxImageSide+1, 1)))

	ts := newToolset(nil, Options{})
	a := ts.runAnswer(session.RunResult{Success: true, Status: "done", Images: 5, Displays: []session.Display{
		{MIME: "image/png", Data: smallPNG},
		{MIME: "image/png", Data: large},
		{MIME: "image/jpeg", Data: smallJPEG.Bytes()},
		{MIME: "image/png", Data: []byte("GIF89a, or so it says")},
		{MIME: "image/jpeg", Data: smallPNG},
		{MIME: "image/png", Data: wide},
		{MIME: "image/svg+xml", Data: []byte("<svg><script>alert(1)</script></svg>")},
		{MIME: "text/html", Data: []byte("<script>fetch()</script>")},
		{MIME: "text/plain", Data: []byte("shown")},
	}})
	if got := a.object.(session.RunResult).Images; got != 3 || len(a.images) != 3 {
		t.Fatalf("images = %d, %d blocks; want 3\n%s", got, len(a.images), a.text)
	}
	if !bytes.Equal(a.images[0].data, smallPNG) || !bytes.Equal(a.images[2].data, smallJPEG.Bytes()) {
		t.Error("a small image was changed")
	}
	for i, p := range a.images {
		config, format, err := image.DecodeConfig(bytes.NewReader(p.data))
		if err != nil || "image/"+format != p.mime {
			t.Errorf("image %d is %s, told as %s: %v", i, format, p.mime, err)
		}
		if i == 1 && (config.Width < 100 || config.Width >= 1000) {
			t.Errorf("the large image is %d pixels wide now", config.Width)
		}
	}
	r, _ := ts.result(t.Context(), a)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 900_000 {
		t.Errorf("the answer has %d bytes", len(data))
	}
	if bytes.Contains(data, []byte("script")) {
		t.Error("active content travelled")
	}
	for _, want := range []string{"Images below: 3.", "Image 4 was left out: its data are not image/png.", "Image 6 was left out: it has 4097 x 1 pixels", "Displayed:\nshown"} {
		if !strings.Contains(a.text, want) {
			t.Errorf("the text lacks %q:\n%s", want, a.text)
		}
	}
	if _, ok := r.Content[0].(mcp.TextContent); !ok || len(r.Content) != 4 {
		t.Errorf("content: %T first of %d", r.Content[0], len(r.Content))
	}
}

func TestManyLargeImagesShareTheRoom(t *testing.T) {
	data := encodePNG(t, noise(t, 400, 300))
	displays := make([]session.Display, 12)
	for i := range displays {
		displays[i] = session.Display{MIME: "image/png", Data: data}
	}
	fitted, notes := fitImages(displays, 600_000)
	total := 0
	for _, p := range fitted {
		total += base64.StdEncoding.EncodedLen(len(p.data)) + imageBlock
	}
	if len(fitted) != maxImages || total > 600_000 {
		t.Errorf("%d images of %d bytes", len(fitted), total)
	}
	if want := []string{"2 more images were left out: at most 10 travel in an answer."}; !cmp.Equal(notes, want) {
		t.Errorf("notes: %q", notes)
	}
}

func TestSafeMIME(t *testing.T) {
	tests := map[string]string{
		"text/csv": "text/csv", "image/png": "image/png", "application/json": "application/json",
		"text/html": "text/plain", "image/svg+xml": "text/plain", "application/xhtml+xml": "text/plain",
		"application/javascript": "text/plain", "text/html; charset=x": "text/plain", "TEXT/HTML": "text/plain",
		"text/x\r\nSet-Cookie: a": "application/octet-stream", "": "application/octet-stream", "x": "application/octet-stream",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	}
	for in, want := range tests {
		if got := safeMIME(in); got != want {
			t.Errorf("safeMIME(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCutMiddle(t *testing.T) {
	text := strings.Repeat("line é\n", 1000)
	for limit := range 300 {
		got := cutMiddle(text, limit, "/tmp/x")
		if !utf8.ValidString(got) || len(got) > limit+120 {
			t.Fatalf("cutMiddle to %d: %d bytes, UTF-8 %v", limit, len(got), utf8.ValidString(got))
		}
	}
	if got := cutMiddle("short", 5, ""); got != "short" {
		t.Errorf("cutMiddle changed a short text: %q", got)
	}
}
