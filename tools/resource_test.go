package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/session"
)

func TestResource(t *testing.T) {
	long := bytes.Repeat([]byte("\"é"), 400_000)
	tests := []struct {
		name, uri string
		file      []byte
		mime      string
		wantPath  string
		want      string
	}{
		{"text", "sandbox://sbx_A/a%20b/c%C3%A9.csv", []byte("x,y\r\n"), "text/csv", "a b/cé.csv", `"mimeType":"text/csv","text":"x,y\r\n"`},
		{"absolute", resourceURI("sbx_A", "/tmp/out 1"), []byte("x"), "text/plain", "/tmp/out 1", `"text":"x"`},
		{"HTML is text", "sandbox://sbx_A/a.html", []byte("hi"), "text/html", "a.html", `"mimeType":"text/plain"`},
		{"hidden characters go as bytes", "sandbox://sbx_A/a.txt", []byte("\u202ex"), "text/plain", "a.txt", `"blob":"4oCueA=="`},
		{"binary", "sandbox://sbx_A/a.bin", []byte{0, 1}, "application/zip", "a.bin", `"mimeType":"application/octet-stream","blob":"AAE="`},
		{"a long text is cut and says so", "sandbox://sbx_A/a.txt", long, "text/plain", "a.txt", `go on with sandbox://sbx_A/a.txt?offset=`},
		{"long bytes are refused", "sandbox://sbx_A/a.bin", make([]byte, 700_000), "application/zip", "a.bin", `read it in parts, the first one as sandbox://sbx_A/a.bin?limit=640000`},
		{"a part", "sandbox://sbx_A/a.txt?offset=1&limit=3", []byte("0123456"), "text/plain", "a.txt", `"_meta":{"biocage/range":{"offset":1,"size":7,"next_offset":4}},"uri":"sandbox://sbx_A/a.txt?offset=1\u0026limit=3","mimeType":"text/plain","text":"123"`},
		{"the last part", "sandbox://sbx_A/a.txt?offset=4", []byte("0123456"), "text/plain", "a.txt", `{"offset":4,"size":7}},"uri":"sandbox://sbx_A/a.txt?offset=4","mimeType":"text/plain","text":"456"`},
		{"a part ends with a whole character", "sandbox://sbx_A/a.txt?limit=2", []byte("aéb"), "text/plain", "a.txt", `"next_offset":1`},
		{"a part of half a character is bytes", "sandbox://sbx_A/a.txt?offset=1&limit=1", []byte("aéb"), "text/plain", "a.txt", `"next_offset":2`},
		{"a part of an image is bytes", "sandbox://sbx_A/a.png?limit=9", []byte("\x89PNG\x0D\x0A\x1A\x0A123"), "image/png", "a.png", `"mimeType":"application/octet-stream","blob"`},
		{"behind the end", "sandbox://sbx_A/a.txt?offset=99", []byte("abc"), "text/plain", "a.txt", `{"offset":99,"size":3}},"uri":"sandbox://sbx_A/a.txt?offset=99","mimeType":"text/plain","text":""`},
		{"a name with a question mark", resourceURI("sbx_A", "what?offset=1"), []byte("abc"), "text/plain", "what?offset=1", `"text":"abc"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeSessions{file: tt.file, mime: tt.mime}
			answer := newHarness(t, f, Options{}).request("resources/read", fmt.Sprintf(`{"uri":%q}`, tt.uri))
			if !strings.Contains(answer, tt.want) || len(answer) > 900_000 {
				t.Fatalf("%d bytes: %.400s\nwant %s", len(answer), answer, tt.want)
			}
			if f.reads[0].Path != tt.wantPath || f.ref.Handle != "sbx_A" || f.ref.Connection != "conn" {
				t.Errorf("read %q of %+v", f.reads[0].Path, f.ref)
			}
		})
	}
	if answer := newHarness(t, &fakeSessions{}, Options{}).request("resources/read", `{"uri":"file:///etc/passwd"}`); !strings.Contains(answer, `"error"`) {
		t.Errorf("another scheme: %s", answer)
	}
}

// A reader that follows next_offset gets every byte once, whatever the file.
func TestPartsMakeTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		file := make([]byte, random.IntN(2000))
		for i := range file {
			file[i] = []byte("aé\n\x00\xff\"\u202e")[random.IntN(12)%len("aé\n\x00\xff\"\u202e")]
		}
		if random.IntN(2) == 0 {
			file = []byte(strings.Repeat("añb→c", random.IntN(200)))
		}
		h := newHarness(t, &fakeSessions{file: file, mime: "text/plain"}, Options{})
		var got []byte
		for offset, more := int64(0), true; more; {
			uri := address{session: "sbx_A", path: "f", offset: offset, limit: 1 + random.Int64N(700), part: true}
			var answer struct {
				Result struct {
					Contents []struct {
						Text, Blob string
						Meta       map[string]byteRange `json:"_meta"`
					} `json:"contents"`
				} `json:"result"`
			}
			if err := json.Unmarshal([]byte(h.request("resources/read", fmt.Sprintf(`{"uri":%q}`, uri))), &answer); err != nil {
				t.Fatal(err)
			}
			c := answer.Result.Contents[0]
			data, err := base64.StdEncoding.DecodeString(c.Blob)
			if err != nil {
				t.Fatal(err)
			}
			got = append(append(got, c.Text...), data...)
			more = c.Meta[rangeKey].NextOffset > offset
			offset = c.Meta[rangeKey].NextOffset
		}
		if !bytes.Equal(file, got) {
			t.Fatalf("read %q of %q", got, file)
		}
	}
}

// No host may be told to run what a sandbox wrote: only inert types go out,
// and an image only where the bytes are one.
func TestNeutralMIME(t *testing.T) {
	inert := []string{
		textMIME, bytesMIME, "text/csv", "text/tab-separated-values", "text/markdown", "text/x-python", "application/json",
		"application/x-ndjson", "application/yaml", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf",
		"application/zip", "application/gzip", "application/vnd.apache.parquet",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	}
	starts := []string{
		"", "<html><script>alert(1)</script>", "<!DOCTYPE html>", "<svg xmlns='http://www.w3.org/2000/svg' onload='x()'/>", "<?xml version='1.0'?>",
		"\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00", "\xef\xbb\xbf<html>", "alert(1)", "GIF89a/*", "\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "%PDF-1.7", "PK\x03\x04", "PAR1", "\x1f\x8b\x08",
		"RIFF....WEBPVP", "<html>\x00\xff", "\x00asm", "%!PS-Adobe-",
	}
	names := []string{
		"a.html", "a.htm", "a.svg", "a.xml", "a.js", "a.mjs", "a.xhtml", "a.png", "a.jpg", "a.csv", "a.txt", "a.py", "a.json", "a.pdf", "a.parquet", "a.xlsx", "a", "a.gif", "a.zip",
	}
	for _, name := range names {
		for _, start := range starts {
			for _, isText := range []bool{true, false} {
				got := neutralMIME(session.MIMEByName(name), []byte(start), isText)
				if !slices.Contains(inert, got) {
					t.Errorf("%s beginning with %q goes out as %s", name, start, got)
				}
				if isText && !strings.HasPrefix(got, "text/") && !strings.Contains(got, "json") && !strings.Contains(got, "yaml") {
					t.Errorf("the text %q of %s goes out as %s", start, name, got)
				}
				if found := http.DetectContentType([]byte(start)); strings.HasPrefix(got, "image/") && found != got {
					t.Errorf("%s beginning with %q goes out as %s, but is %s", name, start, got, found)
				}
			}
		}
	}
}

func FuzzParseURI(f *testing.F) {
	for _, seed := range []string{
		"sandbox://sbx_A/a", "sandbox://sbx_A//tmp/x?offset=1&limit=2", "sandbox://sbx_A/%2e%2e/x", "sandbox://u:p@h/x", "sandbox://h:80/x",
		"sandbox:opaque", "sandbox://h/x#f", "sandbox://h/x?offset=1&offset=2", "sandbox://h/%00", "SANDBOX://h/x", "sandbox://h/x?limit=-1", "sandbox://[::1]/x", "%", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		a, err := parseURI(uri)
		if err != nil {
			if argument, ok := errors.AsType[*session.ArgumentError](err); !ok || argument.Message == "" {
				t.Fatalf("%q: %v", uri, err)
			}
			return
		}
		if a.path == "" || !isHandle(a.session) || a.offset < 0 || a.limit < 0 || a.limit > maxResource || strings.ContainsRune(a.path, 0) {
			t.Fatalf("%q gives %+v", uri, a)
		}
		if len(a.String()) > maxURI {
			return
		}
		again, err := parseURI(a.String())
		if err != nil || again != a {
			t.Fatalf("%q gives %+v, written %s, and then %+v (%v)", uri, a, a, again, err)
		}
	})
}

func TestBadURIs(t *testing.T) {
	for _, uri := range []string{
		"sandbox://sbx_A", "sandbox://sbx_A/", "sandbox:///x", "sandbox://u@sbx_A/x", "sandbox://sbx_A:1/x", "sandbox://sbx_A/x#y",
		"sandbox://sbx_A/x?offset=-1", "sandbox://sbx_A/x?offset=1&offset=2", "sandbox://sbx_A/x?limit=0", "sandbox://sbx_A/x?limit=640001",
		"sandbox://sbx_A/x?size=1", "sandbox://sbx_A/x?offset=a", "sandbox://sbx_A/%00", "http://sbx_A/x", "sandbox://sbx_A/" + strings.Repeat("x", maxURI),
	} {
		if a, err := parseURI(uri); err == nil {
			t.Errorf("%.60s is taken for %+v", uri, a)
		}
	}
}

func TestResourceErrors(t *testing.T) {
	const uri = "sandbox://sbx_B/x"
	missing := map[string]string{"uri": uri}
	tests := []struct {
		err    error
		legacy int
		modern int
		data   any
		text   string
	}{
		{session.ErrUnknown, mcp.RESOURCE_NOT_FOUND, mcp.INVALID_PARAMS, missing, "does not exist, or has ended"},
		{fmt.Errorf("%w: it ended because it was idle", session.ErrUnknown), mcp.RESOURCE_NOT_FOUND, mcp.INVALID_PARAMS, missing, "does not exist, or has ended"},
		{&session.ArgumentError{Argument: "path", Message: "It is not there.", Missing: true}, mcp.RESOURCE_NOT_FOUND, mcp.INVALID_PARAMS, missing, "It is not there."},
		{badArgument("uri", "Bad form."), mcp.INVALID_PARAMS, mcp.INVALID_PARAMS, nil, "Bad form."},
		{errors.New("secret"), mcp.INTERNAL_ERROR, mcp.INTERNAL_ERROR, nil, "Internal error"},
		{context.Canceled, mcp.INTERNAL_ERROR, mcp.INTERNAL_ERROR, nil, "cancelled"},
	}
	for _, tt := range tests {
		ts := newToolset(&fakeSessions{err: tt.err}, Options{})
		_, err := ts.readResource(t.Context(), uri)
		f, ok := errors.AsType[*failure](ts.failure(t.Context(), "resources/read", uri, err))
		if !ok || !strings.Contains(f.Error(), tt.text) || strings.Contains(f.Error(), "secret") || strings.Contains(f.Error(), "idle") {
			t.Errorf("%v: %v", tt.err, f)
			continue
		}
		for modern, want := range map[bool]int{false: tt.legacy, true: tt.modern} {
			code, data := f.RPC(modern)
			if diff := cmp.Diff(tt.data, data); code != want || diff != "" {
				t.Errorf("%v (modern %v): code %d, want %d; data %s", tt.err, modern, code, want, diff)
			}
		}
	}
}

func TestListResources(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := &fakeSessions{handles: []string{"sbx_A"}}
	for i := range 250 {
		f.entries = append(f.entries, session.Entry{Path: fmt.Sprintf("f%03d.html", i), Type: "file", Size: int64(i), Modified: at})
	}
	f.entries = append(f.entries,
		session.Entry{Path: ".hidden", Type: "file"}, session.Entry{Path: "dir", Type: "directory"},
		session.Entry{Path: "x\u202ey", Type: "file"}, session.Entry{Path: "l", Type: "symlink"})
	list := Resources(f, Options{})
	var names []string
	cursor := ""
	for pages := 0; ; pages++ {
		page, next, err := list(t.Context(), cursor)
		if err != nil || len(page) > maxListed || pages > 3 {
			t.Fatalf("%d resources: %v", len(page), err)
		}
		for _, r := range page {
			names = append(names, r.Name)
			if a, err := parseURI(r.URI); err != nil || a.session != "sbx_A" || a.path != r.Name || r.MIMEType != "text/plain" || r.Annotations.LastModified != "2026-01-02T03:04:05Z" {
				t.Errorf("%+v: %v", r, err)
			}
		}
		if next == "" {
			break
		}
		cursor = next
	}
	if len(names) != 250 || !slices.IsSorted(names) || len(slices.Compact(names)) != 250 {
		t.Errorf("%d names", len(names))
	}
	for _, bad := range []string{"x", "e30=", base64.StdEncoding.EncodeToString([]byte("[]"))} {
		if _, _, err := list(t.Context(), bad); err == nil {
			t.Errorf("the cursor %q is taken", bad)
		}
	}
	if page, next, err := Resources(&fakeSessions{}, Options{})(t.Context(), cursor); len(page) != 0 || page == nil || next != "" || err != nil {
		t.Errorf("without a session: %v %q %v", page, next, err)
	}
}
