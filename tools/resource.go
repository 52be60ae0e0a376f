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
	scheme, rest, _ := strings.Cut(uri, "://")
	handle, path, _ = strings.Cut(rest, "/")
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if scheme != resourceScheme || handle == "" || path == "" {
		return "", "", badArgument("uri", "A file's address has the form sandbox://SESSION/PATH; take it from a link in an answer.")
	}
	return handle, path, nil
}

// at gives the session and the path that a tool's argument path means: it may
// be a file's address, because answers link files so.
func (c call) at(path string) (session.Ref, string, error) {
	scheme, rest, ok := strings.Cut(path, ":/")
	if !ok || !isScheme(scheme) {
		return c.ref, path, nil
	}
	if strings.HasSuffix(path, "/") {
		path += "."
	}
	handle, inside, err := splitResourceURI(path)
	switch {
	case err == nil && (c.ref.Handle == handle || c.ref.Handle == "" && session.IsHandle(handle)):
		ref := c.ref
		ref.Handle = handle
		return ref, inside, nil
	case err == nil && session.IsHandle(handle):
		return c.ref, "", badArgument("path", fmt.Sprintf(
			"path is the address of a file of session %s, but session is %s; leave session out.", shorten(Sanitize(handle), 100), shorten(Sanitize(c.ref.Handle), 100)))
	case scheme == resourceScheme || scheme == "file":
		return c.ref, "", badArgument("path", fmt.Sprintf(
			"path is an address, but a path of the sandbox is meant, such as %q.", "/"+shorten(Sanitize(strings.TrimLeft(rest, "/")), 300)))
	}
	return c.ref, "", badArgument("path", fmt.Sprintf(
		"path is an address (%s:), but only files in the sandbox can be named, by their path, such as data/in.csv.", scheme))
}

// isScheme tells whether a word can begin an address; one letter is a drive.
func isScheme(word string) bool {
	for i := range len(word) {
		c := word[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(word[i]))) {
			return false
		}
	}
	return len(word) > 1
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
	file, err := t.sessions.ReadFile(ctx, refOf(ctx, handle), session.ReadRequest{Path: path, Limit: maxResource})
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
