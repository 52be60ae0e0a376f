package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Server is what a host is to start.
type Server struct {
	Name    string
	Command string // absolute
	Args    []string
}

// Check refuses what no host could use.
func (s Server) Check() error {
	switch {
	case !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(s.Name):
		return fault{ErrUnknown, fmt.Sprintf("the name %q does not do for a server; use up to 64 letters, digits, - and _", s.Name)}
	case !filepath.IsAbs(s.Command):
		return fault{ErrUnknown, fmt.Sprintf("the program %q has no absolute path", s.Command)}
	}
	return nil
}

// An entry is a server in a JSON file.
type entry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// jsonText is v as JSON. Line ends are "\n"; without indent all is one line.
func jsonText(v any, prefix, indent string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if indent != "" {
		enc.SetIndent(prefix, indent)
	}
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("strings and lists of strings cannot be encoded: %v", err)) // never
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// addressKeys are what hosts call the address of a server that they reach over
// a network, kindKeys what tells such a server from one that they start.
func addressKeys() []string { return []string{"url", "httpUrl", "serverUrl"} }
func kindKeys() []string    { return []string{"type", "transport"} }

// isRemote tells whether an entry is of a server that is reached over a network.
func isRemote(entry map[string]any) bool {
	has := func(key string) bool { _, ok := entry[key]; return ok }
	other := func(key string) bool { return has(key) && entry[key] != "stdio" }
	return slices.ContainsFunc(addressKeys(), has) || slices.ContainsFunc(kindKeys(), other)
}

// remote refuses to make a program of what is reached over a network.
func remote(name string) error {
	return fault{ErrConflict, fmt.Sprintf("the server %q is there and is a remote one; choose another --name, or remove it first", name)}
}
