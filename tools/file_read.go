package tools

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

const (
	defaultRead  = 32 << 10
	maxReadImage = 8 << 20
)

type fileReadInput struct {
	Path   string `json:"path" jsonschema:"required,minLength=1" jsonschema_description:"Relative to the working directory."`
	Offset int64  `json:"offset,omitempty" jsonschema:"minimum=0" jsonschema_description:"First byte."`
	Limit  int64  `json:"limit,omitempty" jsonschema:"minimum=1,maximum=262144" jsonschema_description:"Most bytes."`
	target
}

// fileReadResult is file_read's result object.
type fileReadResult struct {
	Path          string  `json:"path"`
	Size          int64   `json:"size"`
	MIMEType      string  `json:"mime_type"`
	Content       *string `json:"content,omitempty"`
	ContentBase64 *string `json:"content_base64,omitempty"`
	NextOffset    int64   `json:"next_offset,omitempty"`
}

func (t *toolset) fileRead() server.ServerTool {
	return define(t, definition[fileReadInput]{
		name:        "file_read",
		title:       "Read a file",
		description: "Read a file of the sandbox, in parts if it is large; PNG and JPEG are shown.",
		hints:       hints{readOnly: true, idempotent: true},
		output:      fileReadResult{},
		handle:      t.handleFileRead,
	})
}

func (t *toolset) handleFileRead(ctx context.Context, c call, in fileReadInput) (answer, error) {
	limit := in.Limit
	if limit == 0 {
		limit = defaultRead
	}
	var err error
	if c.ref, in.Path, err = c.at(in.Path); err != nil {
		return answer{}, err
	}
	part, err := t.sessions.ReadFile(ctx, c.ref, session.ReadRequest{Path: in.Path, Offset: in.Offset, Limit: limit})
	if err != nil {
		return answer{}, err
	}
	if in.Limit == 0 && in.Offset == 0 && isImage(part.MIMEType) && part.Size <= maxReadImage {
		if a, ok := t.imageAnswer(ctx, c, in, part); ok {
			return a, nil
		}
	}
	// A text of quotes or control characters grows when it is encoded, and it
	// travels in the text and in the result object.
	for {
		a := partAnswer(in.Offset, part)
		if jsonSize(a.text)+t.objectCopies()*jsonSize(a.object) <= maxAnswer-10_000 || len(part.Data) < 4096 {
			return a, nil
		}
		part.Data = part.Data[:len(part.Data)/2]
		part.NextOffset = in.Offset + int64(len(part.Data))
	}
}

// partAnswer tells a part of a file.
func partAnswer(offset int64, part session.ReadResult) answer {
	res := fileReadResult{Path: Sanitize(part.Path), Size: part.Size, MIMEType: safeMIME(part.MIMEType), NextOffset: part.NextOffset}
	text, used, isText := asText(part.Data, part.NextOffset > 0)
	what := "text"
	if isText {
		res.Content = &text
		if used < len(part.Data) { // a character was cut in two: it comes with the next part
			res.NextOffset = offset + int64(used)
		}
	} else {
		what, used = "base64", len(part.Data)
		text = base64.StdEncoding.EncodeToString(part.Data)
		res.ContentBase64 = &text
	}
	head := fmt.Sprintf("%s: %d bytes (%s), as %s", shorten(res.Path, 1000), res.Size, res.MIMEType, what)
	switch {
	case res.NextOffset > 0:
		head += fmt.Sprintf("; bytes %d to %d, go on with offset %d", offset, offset+int64(used), res.NextOffset)
	case offset > 0:
		head += fmt.Sprintf("; bytes %d to the end", offset)
	}
	return answer{text: head + ":\n" + Sanitize(text), object: res}
}

// imageAnswer shows an image file whole. The result object carries its first
// part only: the whole would not fit twice.
func (t *toolset) imageAnswer(ctx context.Context, c call, in fileReadInput, part session.ReadResult) (answer, bool) {
	whole := part
	if part.NextOffset > 0 {
		var err error
		whole, err = t.sessions.ReadFile(ctx, c.ref, session.ReadRequest{Path: in.Path, Limit: maxReadImage})
		if err != nil || whole.NextOffset > 0 {
			return answer{}, false
		}
	}
	p, err := fitImage(session.Display{MIME: part.MIMEType, Data: whole.Data}, maxAnswer/2)
	if err != nil {
		return answer{}, false
	}
	a := partAnswer(0, part)
	a.text = fmt.Sprintf("%s: %d bytes (%s), shown below.", shorten(Sanitize(part.Path), 1000), part.Size, part.MIMEType)
	a.images = []picture{p}
	return a, true
}
