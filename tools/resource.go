package tools

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

const (
	resourceScheme = "sandbox"
	// maxResource is the most bytes of a file that a resource carries.
	maxResource = 640_000
)

// resourceURI is the address of a file. An absolute path keeps its slash, so
// that it is told from one beneath the workspace.
func resourceURI(handle, path string) string {
	u := url.URL{Scheme: resourceScheme, Host: handle, Path: "/" + path}
	return u.String()
}

// splitResourceURI is the inverse of resourceURI.
func splitResourceURI(uri string) (handle, path string, err error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != resourceScheme || u.Host == "" || len(u.Path) < 2 {
		return "", "", badArgument("uri", "A file's address has the form sandbox://SESSION/PATH; take it from a link in an answer.")
	}
	return u.Host, strings.TrimPrefix(u.Path, "/"), nil
}

func (t *toolset) fileResource() server.ServerResourceTemplate {
	return server.ServerResourceTemplate{
		Template: mcp.NewResourceTemplate(resourceScheme+"://{session}/{+path}", "file",
			mcp.WithTemplateTitle("File of a session"),
			mcp.WithTemplateDescription("A file of a session's sandbox, as linked in answers")),
		Handler: func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			contents, err := t.readResource(ctx, request.Params.URI)
			if err != nil {
				return nil, t.resourceError(ctx, err)
			}
			return []mcp.ResourceContents{contents}, nil
		},
	}
}

// A resourceError is an error whose text a client may see.
type resourceError struct{ text string }

// Error implements error.
func (e *resourceError) Error() string { return e.text }

func (t *toolset) resourceError(ctx context.Context, err error) error {
	return &resourceError{text: t.refuse(ctx, "resources/read", err).text}
}

func (t *toolset) readResource(ctx context.Context, uri string) (mcp.ResourceContents, error) {
	handle, path, err := splitResourceURI(uri)
	if err != nil {
		return nil, err
	}
	file, err := t.sessions.ReadFile(ctx, session.Ref{Scope: scopeOf(ctx), Handle: handle},
		session.ReadRequest{Path: path, Limit: maxResource})
	if err != nil {
		return nil, err
	}
	mime := safeMIME(file.MIMEType)
	text, used, isText := asText(file.Data, file.NextOffset > 0)
	switch {
	case isText && (file.NextOffset > 0 || harmless(text)):
		return textResource(uri, path, mime, text, used, file), nil
	case file.NextOffset > 0:
		return nil, badArgument("uri", fmt.Sprintf(
			"The file has %d bytes, more than a resource carries (%d); read it in parts with file_read.", file.Size, maxResource))
	}
	return mcp.BlobResourceContents{URI: uri, MIMEType: mime, Blob: base64.StdEncoding.EncodeToString(file.Data)}, nil
}

// harmless tells whether a text can be shown as it is. Another one goes as
// bytes: exact for who saves it, and nothing that a model reads unseen.
func harmless(text string) bool {
	return Sanitize(text) == strings.ReplaceAll(text, "\r\n", "\n")
}

// textResource carries a text, or its start with a last line that says so.
func textResource(uri, path, mime, text string, used int, file session.ReadResult) mcp.ResourceContents {
	for jsonSize(text) > maxAnswer-1000 {
		text = cutEnd(text, len(text)*3/4)
		used = len(text)
	}
	if rest := file.Size - int64(used); rest > 0 {
		text = Sanitize(text) + fmt.Sprintf("\n[... %d bytes left out; go on with file_read path=%s offset=%d ...]", rest, shorten(path, 500), used)
	}
	return mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: text}
}
