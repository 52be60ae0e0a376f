package tools

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/biocypher/biocage-mcp/session"
)

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
