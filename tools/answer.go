package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/requestid"
)

const (
	// resultKey is where the result object travels in _meta.
	resultKey = "biocage/result"
	// maxAnswer bounds a whole answer: hosts refuse more than a mebibyte, and
	// the envelope needs a little.
	maxAnswer = 890_000
	// maxText bounds the text block.
	maxText = 40_000
)

// An answer is what a tool says: one text that stands alone, the result
// object, and what goes beside them.
type answer struct {
	text   string
	object any
	images []picture
	links  []link
	failed bool
	// question, when set, goes instead of all else: the call comes again with
	// the answers.
	question *mcp.CallToolResult
}

// A link points to a file of the sandbox.
type link struct {
	uri, name, mime string
	size            int64 // -1: not known
}

// begin tells the client, before all else, how to come back to a session that
// this call began.
func (a answer) begin(pass string) answer {
	if pass != "" {
		a.text = fmt.Sprintf("session: %s — pass it as \"session\" to continue here\n%s", pass, a.text)
	}
	return a
}

// result turns an answer into the protocol's form. An answer that is too
// large despite every bound is replaced: a host would drop it silently.
// It tells the size too.
func (t *toolset) result(ctx context.Context, a answer) (*mcp.CallToolResult, int) {
	r := t.encode(a)
	size := jsonSize(r)
	if size > maxAnswer {
		t.log.ErrorContext(ctx, "answer exceeds its bound", "incident", requestid.From(ctx), "bytes", size)
		r = t.encode(t.internal(ctx))
		size = jsonSize(r)
	}
	return r, size
}

func (t *toolset) encode(a answer) *mcp.CallToolResult {
	if a.question != nil {
		return a.question
	}
	r := &mcp.CallToolResult{IsError: a.failed}
	r.Content = append(r.Content, mcp.NewTextContent(a.text))
	for _, p := range a.images {
		r.Content = append(r.Content, mcp.NewImageContent(base64.StdEncoding.EncodeToString(p.data), p.mime))
	}
	for _, l := range a.links {
		block := mcp.NewResourceLink(l.uri, l.name, "", l.mime)
		if l.size >= 0 {
			block.Size = &l.size
		}
		r.Content = append(r.Content, block)
	}
	r.Meta = mcp.NewMetaFromMap(map[string]any{resultKey: a.object})
	if t.opts.Structured {
		r.StructuredContent = a.object
	}
	return r
}

// objectCopies is how often the result object travels in an answer.
func (t *toolset) objectCopies() int {
	if t.opts.Structured {
		return 2
	}
	return 1
}

// jsonSize is the number of bytes of a value's JSON; a value that cannot be
// encoded counts as too large for everything.
func jsonSize(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return maxAnswer + 1
	}
	return len(data)
}
