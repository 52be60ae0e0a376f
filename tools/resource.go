package tools

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/internal/requestid"
	"github.com/biocypher/biocage-mcp/session"
)

const (
	// maxResource is the most bytes of a file that a resource carries.
	maxResource = 640_000
	// rangeKey is where a part says which one it is, in _meta.
	rangeKey = "biocage/range"
)

// A byteRange says which part of a file a resource carries.
type byteRange struct {
	Offset     int64 `json:"offset"`
	Size       int64 `json:"size"` // of the whole file
	NextOffset int64 `json:"next_offset,omitempty"`
}

func (t *toolset) fileResource() server.ServerResourceTemplate {
	return server.ServerResourceTemplate{
		Template: mcp.NewResourceTemplate(resourceTemplate, "file",
			mcp.WithTemplateTitle("File of a session"),
			mcp.WithTemplateDescription("A file of a session's sandbox, as linked in answers; offset and limit (bytes) read a part of a large one.")),
		Handler: func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			ctx = requestid.Ensure(ctx)
			uri := request.Params.URI
			v := view{method: methodRead, arguments: map[string]string{"uri": uri}, header: request.Header, meta: request.Params.Meta}
			if named, err := parseURI(uri); err == nil {
				v.session = named.session
			}
			contents, err := see(ctx, t, v, func(ctx context.Context) (mcp.ResourceContents, error) { return t.readResource(ctx, uri) })
			if err != nil {
				return nil, t.failure(ctx, methodRead, uri, err)
			}
			return []mcp.ResourceContents{contents}, nil
		},
	}
}

// A failure is an error of a request that is no tool call: its text is for the
// client, and it knows its code.
type failure struct {
	text    string
	code    int
	missing string // the URI of what is not there
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// RPC gives the JSON-RPC code and data. What is not there has a code of its
// own in the protocol's first era only.
func (f *failure) RPC(modern bool) (code int, data any) {
	if f.missing == "" {
		return f.code, nil
	}
	if modern {
		return mcp.INVALID_PARAMS, map[string]string{"uri": f.missing}
	}
	return mcp.RESOURCE_NOT_FOUND, map[string]string{"uri": f.missing}
}

// failure tells why a request failed. A session of somebody else's answers
// like one that does not exist.
func (t *toolset) failure(ctx context.Context, method, uri string, err error) *failure {
	if known, ok := errors.AsType[*failure](err); ok {
		return known
	}
	argument, isArgument := errors.AsType[*session.ArgumentError](err)
	_, unnamed := errors.AsType[*session.NoSessionError](err)
	f := &failure{code: mcp.INTERNAL_ERROR, text: t.refuse(ctx, method, err).text}
	switch {
	case errors.Is(err, session.ErrUnknown), unnamed, isArgument && argument.Missing:
		f.missing = uri
	case isArgument:
		f.code = mcp.INVALID_PARAMS
	}
	return f
}

func (t *toolset) readResource(ctx context.Context, uri string) (mcp.ResourceContents, error) {
	a, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	limit := a.limit
	if limit == 0 {
		limit = maxResource
	}
	file, err := t.sessions.PeekFile(ctx, refOf(ctx, a.session),
		session.ReadRequest{Path: a.path, Offset: a.offset, Limit: limit})
	if err != nil {
		return nil, err
	}
	if a.part {
		return partResource(uri, a, file), nil
	}
	text, used, isText := asText(file.Data, file.NextOffset > 0)
	mime := neutralMIME(file.MIMEType, file.Data, isText)
	switch {
	case isText && (file.NextOffset > 0 || harmless(text)):
		return textResource(uri, a, mime, text, used, file), nil
	case file.NextOffset > 0:
		a.part, a.limit = true, maxResource
		return nil, badArgument("uri", fmt.Sprintf(
			"The file has %d bytes, more than a resource carries (%d); read it in parts, the first one as %s.", file.Size, maxResource, a))
	}
	return mcp.BlobResourceContents{URI: uri, MIMEType: mime, Blob: base64.StdEncoding.EncodeToString(file.Data)}, nil
}

// harmless tells whether a text can be shown as it is. Another one goes as
// bytes: exact for who saves it, and nothing that a model reads unseen.
func harmless(text string) bool {
	return Sanitize(text) == strings.ReplaceAll(text, "\r\n", "\n")
}

// textResource carries a text, or its start with a last line that says so.
func textResource(uri string, a address, mime, text string, used int, file session.ReadResult) mcp.ResourceContents {
	for jsonSize(text) > maxAnswer-20_000 {
		text = cutEnd(text, len(text)*3/4)
		used = len(text)
	}
	if rest := file.Size - int64(used); rest > 0 {
		a.part, a.offset = true, int64(used)
		text = Sanitize(text) + fmt.Sprintf("\n[... %d bytes left out; go on with %s ...]\n", rest, a)
	}
	return mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: text}
}

// partResource carries the part that was asked for, exactly, and says in _meta
// where the next one begins.
func partResource(uri string, a address, file session.ReadResult) mcp.ResourceContents {
	r := byteRange{Offset: a.offset, Size: file.Size, NextOffset: file.NextOffset}
	text, used, isText := asText(file.Data, file.NextOffset > 0)
	isText = isText && (used > 0 || len(file.Data) == 0) && harmless(text)
	for isText && jsonSize(text) > maxAnswer-20_000 {
		text = cutEnd(text, len(text)*3/4)
		used = len(text)
	}
	mime := neutralMIME(file.MIMEType, file.Data, isText)
	if !isText {
		if a.offset > 0 || file.NextOffset > 0 { // a part of an image is none
			mime = bytesMIME
		}
		return mcp.BlobResourceContents{
			URI: uri, MIMEType: mime, Meta: map[string]any{rangeKey: r},
			Blob: base64.StdEncoding.EncodeToString(file.Data),
		}
	}
	if used < len(file.Data) {
		r.NextOffset = a.offset + int64(used)
	}
	return mcp.TextResourceContents{URI: uri, MIMEType: mime, Meta: map[string]any{rangeKey: r}, Text: text}
}
