package tools

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

type fileWriteInput struct {
	Path          string  `json:"path" jsonschema:"required,minLength=1" jsonschema_description:"Relative to the working directory."`
	Content       *string `json:"content,omitempty" jsonschema_description:"The text."`
	ContentBase64 *string `json:"content_base64,omitempty" jsonschema_description:"Or the bytes."`
	Append        bool    `json:"append,omitempty" jsonschema_description:"Add to the end instead of replacing."`
	target
}

func (t *toolset) fileWrite() server.ServerTool {
	return define(t, definition[fileWriteInput]{
		name:        "file_write",
		title:       "Write a file",
		description: "Write a file in the sandbox; missing directories are made.",
		hints:       hints{destructive: true},
		output:      session.WriteResult{},
		handle: func(ctx context.Context, c call, in fileWriteInput) (answer, error) {
			data, err := in.data()
			if err != nil {
				return answer{}, err
			}
			ref, path, err := c.at(in.Path)
			if err != nil {
				return answer{}, err
			}
			res, err := t.sessions.WriteFile(ctx, ref, session.WriteRequest{Path: path, Data: data, Append: in.Append})
			if err != nil {
				return answer{}, err
			}
			res.Path = Sanitize(res.Path)
			verb := "Wrote"
			if in.Append {
				verb = "Appended to"
			}
			return answer{text: fmt.Sprintf("%s %s; it has %d bytes now.", verb, shorten(res.Path, 1000), res.Size), object: res}.begin(res.Begun), nil
		},
	})
}

// data is what to write: exactly one of the two forms must be there.
func (in fileWriteInput) data() ([]byte, error) {
	switch {
	case (in.Content == nil) == (in.ContentBase64 == nil):
		return nil, badArgument("content", "file_write needs either content or content_base64.")
	case in.Content != nil:
		return []byte(*in.Content), nil
	}
	text := strings.Join(strings.Fields(*in.ContentBase64), "")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		data, err = base64.RawStdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, badArgument("content_base64", "content_base64 is not valid base64 (standard alphabet); nothing was written.")
	}
	return data, nil
}
