package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/tailscale/hujson"
)

// maxDepth bounds the nesting of a file, as reading it recurses.
const maxDepth = 500

// A document is a JSON file's tree and its style.
type document struct {
	root    hujson.Value
	newline string
	indent  string // of one level; empty where all is one line
}

// cutMark splits off the byte order mark that some editors write.
func cutMark(old []byte) (mark, text []byte) {
	const bom = "\xef\xbb\xbf"
	if text, ok := bytes.CutPrefix(old, []byte(bom)); ok {
		return []byte(bom), text
	}
	return nil, old
}

func parseJSON(text []byte) (*document, error) {
	if line := tooDeep(text); line > 0 {
		return nil, fault{ErrMalformed, fmt.Sprintf("line %d nests more than %d levels; %s", line, maxDepth, byHand)}
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, fault{ErrMalformed, strings.TrimPrefix(err.Error(), "hujson: ") + "; " + byHand}
	}
	d := &document{root: root, newline: "\n", indent: "  "}
	if bytes.Contains(text, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	if top, ok := root.Value.(*hujson.Object); ok && len(top.Members) > 0 {
		if space, ok := lineStart(top.Members[0].Name.BeforeExtra); !ok {
			d.indent = ""
		} else if space != "" {
			d.indent = space
		}
	}
	return d, nil
}

// tooDeep gives the first line that nests too deep, 0 where none does.
func tooDeep(text []byte) (line int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i += stringEnd(text[i:])
		case bytes.HasPrefix(text[i:], []byte("//")):
			i += skipTo(text[i:], "\n")
		case bytes.HasPrefix(text[i:], []byte("/*")):
			i += 2 + skipTo(text[min(i+2, len(text)):], "*/")
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return 1 + bytes.Count(text[:i], []byte("\n"))
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return 0
}

// stringEnd gives the place of the quote that ends the string at the start.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// skipTo gives the place of a mark, the text's end where it does not come.
func skipTo(text []byte, mark string) int {
	if i := bytes.Index(text, []byte(mark)); i >= 0 {
		return i
	}
	return len(text)
}

// lineStart is the white space between the last line end of what precedes a
// value and the value. ok is false where the value stands in the middle of a line.
func lineStart(before hujson.Extra) (space string, ok bool) {
	trimmed := bytes.TrimRight(before, " \t")
	return string(before[len(trimmed):]), bytes.HasSuffix(trimmed, []byte("\n"))
}

// add appends a member with a value that is made from want.
func (d *document) add(to *hujson.Object, depth int, name string, want any) {
	indent := d.indent
	if len(to.Members) > 0 {
		if _, ok := lineStart(to.Members[0].Name.BeforeExtra); !ok {
			indent = ""
		}
	}
	d.append(to, depth, name, d.value(want, d.depthOf(to, depth), indent))
}

// append adds a member behind the last one, in the style of the others.
func (d *document) append(to *hujson.Object, depth int, name string, value hujson.ValueTrimmed) {
	prefix, multi := d.depthOf(to, depth), d.indent != ""
	var comma hujson.Extra
	if n := len(to.Members); n > 0 {
		_, multi = lineStart(to.Members[0].Name.BeforeExtra)
		comma = to.Members[n-1].Value.AfterExtra
	}
	added := hujson.ObjectMember{
		Name:  hujson.Value{Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value},
	}
	if comma != nil { // the list ends in a comma, and shall again
		added.Value.AfterExtra = hujson.Extra{}
	}
	kept := bytes.TrimRight(to.AfterExtra, " \t\r\n")
	switch {
	case multi:
		added.Name.BeforeExtra = hujson.Extra(string(kept) + d.newline + prefix)
		end := strings.TrimSuffix(prefix, d.indent)
		if space, ok := lineStart(to.AfterExtra); ok {
			end = space
		}
		to.AfterExtra = hujson.Extra(d.newline + end)
	case bytes.Contains(kept, []byte("//")):
		added.Name.BeforeExtra = hujson.Extra(string(kept) + d.newline)
		to.AfterExtra = nil
	case len(to.Members) > 0:
		added.Name.BeforeExtra = hujson.Extra(string(kept) + " ")
		to.AfterExtra = to.AfterExtra[len(kept):]
	default:
		added.Name.BeforeExtra, to.AfterExtra = hujson.Extra(kept), nil
	}
	to.Members = append(to.Members, added)
}

// depthOf is the white space before a member of an object at a depth.
func (d *document) depthOf(in *hujson.Object, depth int) string {
	if len(in.Members) > 0 {
		if space, ok := lineStart(in.Members[0].Name.BeforeExtra); ok {
			return space
		}
	}
	return strings.Repeat(d.indent, depth)
}

// value is the tree of a value, in the document's style.
func (d *document) value(want any, prefix, indent string) hujson.ValueTrimmed {
	text := strings.ReplaceAll(jsonText(want, prefix, indent), "\n", d.newline)
	v, err := hujson.Parse([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("JSON that was just made is none: %v", err)) // never
	}
	return v.Value
}

// checked gives the new text, after it has been read again: it must hold what
// the old one held, but for the one entry, which must start s or be gone.
func (d *document) checked(mark, old []byte, key, name string, s *Server) ([]byte, error) {
	text := d.root.Pack()
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, fault{ErrConflict, "the file has a form that this program cannot change safely; " + byHand}
	}
	before, err := hujson.Parse(old)
	if err != nil {
		return nil, fault{ErrMalformed, err.Error()}
	}
	want, got := meaning(before), meaning(root)
	if s == nil {
		delete(object(want, key), name)
	} else {
		entry := object(object(want, key), name)
		entry["command"], entry["args"] = s.Command, decoded(jsonText(s.Args, "", ""))
		if kind, ok := object(object(got, key), name)["type"]; ok && kind == "stdio" {
			entry["type"] = kind
		}
	}
	if !reflect.DeepEqual(want, got) {
		return nil, fault{ErrConflict, "the file has a form that this program cannot change safely; " + byHand}
	}
	return append(mark, text...), nil
}

// object gives the object of a name, and makes it where there is none.
func object(in any, name string) map[string]any {
	parent, ok := in.(map[string]any)
	if !ok {
		return map[string]any{}
	}
	child, ok := parent[name].(map[string]any)
	if !ok {
		child = map[string]any{}
		parent[name] = child
	}
	return child
}

// meaning is a value without its form. Numbers stay as they are written.
func meaning(v hujson.Value) any {
	v = v.Clone()
	v.Standardize()
	return decoded(string(v.Pack()))
}

func decoded(text string) any {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err // equals nothing
	}
	return v
}
