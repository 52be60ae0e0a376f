package tools

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

const (
	resourceScheme = "sandbox"
	// resourceTemplate is what the address of every file looks like.
	resourceTemplate = resourceScheme + "://{session}/{+path}{?offset,limit}"
	maxURI           = 16 << 10
)

// An address names a file of a session, or a part of it.
type address struct {
	session string
	path    string // an absolute one keeps its slash
	offset  int64
	limit   int64 // 0: as much as a resource carries
	part    bool  // a part was asked for
}

// resourceURI is the address of a file. An absolute path keeps its slash, so
// that it is told from one beneath the workspace.
func resourceURI(handle, path string) string { return address{session: handle, path: path}.String() }

// String gives the address as a URI.
func (a address) String() string {
	u := url.URL{Scheme: resourceScheme, Host: a.session, Path: "/" + a.path}
	if a.part {
		var query []string
		if a.offset > 0 {
			query = append(query, "offset="+strconv.FormatInt(a.offset, 10))
		}
		if a.limit > 0 {
			query = append(query, "limit="+strconv.FormatInt(a.limit, 10))
		}
		if len(query) == 0 {
			query = []string{"offset=0"}
		}
		u.RawQuery = strings.Join(query, "&")
	}
	return u.String()
}

// parseURI is the inverse of String. What has another form is refused, never
// guessed at.
func parseURI(uri string) (address, error) {
	u, err := url.Parse(uri)
	if err != nil || len(uri) > maxURI || !isFileURL(u) {
		return address{}, badArgument("uri", "A file's address has the form sandbox://SESSION/PATH, or ends with ?offset=BYTES&limit=BYTES for a part; take it from a link in an answer.")
	}
	a := address{session: u.Host, path: u.Path[1:]}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return address{}, badArgument("uri", "The part of the address behind ? is malformed; it takes offset and limit.")
	}
	for name, values := range query {
		if a, err = a.withPart(name, values); err != nil {
			return address{}, err
		}
	}
	return a, nil
}

func isFileURL(u *url.URL) bool {
	return u.Scheme == resourceScheme && isHandle(u.Host) && u.User == nil && u.Opaque == "" && u.Fragment == "" &&
		len(u.Path) > 1 && u.Path[0] == '/' && !strings.ContainsRune(u.Path, 0)
}

// withPart takes one parameter of the address.
func (a address) withPart(name string, values []string) (address, error) {
	if name != "offset" && name != "limit" {
		return address{}, badArgument("uri", "The address takes only offset and limit behind ?; write %3F for a question mark in a name.")
	}
	value, err := strconv.ParseInt(values[0], 10, 64)
	if len(values) > 1 || err != nil || value < 0 || value > maxNumber {
		return address{}, badArgument("uri", name+" in the address must be one whole number of bytes.")
	}
	a.part = true
	if name == "offset" {
		a.offset = value
		return a, nil
	}
	if value == 0 || value > maxResource {
		return address{}, badArgument("uri", fmt.Sprintf("limit in the address must be between 1 and %d bytes.", maxResource))
	}
	a.limit = value
	return a, nil
}

// isHandle tells whether a text may be the handle of a session: letters that a
// host name keeps as they are.
func isHandle(text string) bool {
	return text != "" && len(text) <= 128 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	})
}
