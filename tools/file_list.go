package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

type fileListInput struct {
	Path      string `json:"path,omitempty" jsonschema_description:"Default: the working directory."`
	Recursive bool   `json:"recursive,omitempty"`
	target
}

func (t *toolset) fileList() server.ServerTool {
	return define(t, definition[fileListInput]{
		name:        "file_list",
		title:       "List files",
		description: "List a directory of the sandbox.",
		hints:       hints{readOnly: true, idempotent: true},
		output:      session.ListResult{},
		handle: func(ctx context.Context, c call, in fileListInput) (answer, error) {
			ref, path, err := c.at(in.Path)
			if err != nil {
				return answer{}, err
			}
			res, err := t.sessions.ListFiles(ctx, ref, session.ListRequest{Path: path, Recursive: in.Recursive})
			if err != nil {
				return answer{}, err
			}
			t.boundList(&res)
			return answer{text: listText(path, res), object: res}, nil
		},
	})
}

// boundList sanitizes the names and drops entries until the object fits.
func (t *toolset) boundList(res *session.ListResult) {
	entries := make([]session.Entry, len(res.Entries))
	for i, e := range res.Entries {
		e.Path, e.Type = Sanitize(e.Path), Sanitize(e.Type)
		entries[i] = e
	}
	res.Entries = entries
	for len(res.Entries) > 0 && jsonSize(res) > maxObject/t.objectCopies() {
		res.Entries = res.Entries[:len(res.Entries)/2]
		res.Truncated = true
	}
}

func listText(path string, res session.ListResult) string {
	if path == "" {
		path = "the working directory"
	}
	w := &textWriter{}
	count := fmt.Sprintf("%d entries", len(res.Entries))
	if len(res.Entries) == 1 {
		count = "1 entry"
	}
	head := count + " in " + shorten(oneLine(Sanitize(path)), 500)
	if res.Truncated {
		head += " (more were left out; list a subdirectory)"
	}
	w.line(head + ":")
	for i, e := range res.Entries {
		if w.size() > maxText-2000 {
			w.line(fmt.Sprintf("[... %d entries left out of this text; list a subdirectory ...]", len(res.Entries)-i))
			break
		}
		name := shorten(strings.ReplaceAll(e.Path, "\n", `\n`), 1000)
		switch e.Type {
		case "directory":
			w.line(name + "/")
		case "file":
			w.line(fmt.Sprintf("%s  %s  %s", name, bytesText(e.Size), e.Modified.UTC().Format("2006-01-02 15:04:05")))
		default:
			w.line(name + "  (" + e.Type + ")")
		}
	}
	return w.String()
}
