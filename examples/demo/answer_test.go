package main

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

func TestDecode(t *testing.T) {
	var dot bytes.Buffer
	if err := png.Encode(&dot, image.NewGray(image.Rect(0, 0, 4, 3))); err != nil {
		t.Fatal(err)
	}
	meta := &mcp.Meta{AdditionalFields: map[string]any{resultKey: map[string]any{"success": true, "exit_code": 7}}}
	text := mcp.NewTextContent("done")
	shown := mcp.NewImageContent(base64.StdEncoding.EncodeToString(dot.Bytes()), "image/png")
	link := mcp.NewResourceLink("sandbox://s/a", "a", "", "text/plain")

	build := func(meta *mcp.Meta, blocks ...mcp.Content) *mcp.CallToolResult {
		res := &mcp.CallToolResult{Content: blocks}
		res.Meta = meta
		return res
	}
	a, err := decode(build(meta, text, shown, link))
	if err != nil {
		t.Fatal(err)
	}
	if a.text != "done" || len(a.links) != 1 || !a.result.Success || a.result.ExitCode != 7 {
		t.Errorf("decoded %+v", a)
	}
	if len(a.images) != 1 || a.images[0].width != 4 || a.images[0].height != 3 {
		t.Errorf("decoded the image as %+v", a.images)
	}

	bad := map[string]*mcp.CallToolResult{
		"no result object": build(nil, text),
		"no text":          build(meta, shown),
		"two texts":        build(meta, text, text),
		"no PNG":           build(meta, text, mcp.NewImageContent("aGVsbG8=", "image/png")),
		"no base64":        build(meta, text, mcp.NewImageContent("???", "image/png")),
		"unknown block":    build(meta, text, mcp.NewAudioContent("aGVsbG8=", "audio/wav")),
	}
	for name, res := range bad {
		t.Run(name, func(t *testing.T) {
			if _, err := decode(res); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, line := range []string{"prog --engine gvisor --out o", "--engine gvisor prog --out o", "--engine=gvisor --out=o prog"} {
		opts, err := parse(strings.Fields(line), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(opts.binary) != "prog" || opts.engine != "gvisor" || filepath.Base(opts.out) != "o" {
			t.Errorf("%q is read as %+v", line, opts)
		}
	}
	for _, line := range []string{"a b", "--nonsense", "--engine"} {
		if _, err := parse(strings.Fields(line), io.Discard); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}
