package hosts

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A jsonFile is JSON, comments and trailing commas allowed, with an object of
// servers by name.
type jsonFile struct {
	key   string // of the object
	typed bool   // entries say that they are of type stdio
}

func (f jsonFile) entry(s Server) entry {
	e := entry{Command: s.Command, Args: s.Args}
	if f.typed {
		e.Type = "stdio"
	}
	return e
}

func (f jsonFile) snippet(s Server) string {
	return jsonText(map[string]map[string]entry{f.key: {s.Name: f.entry(s)}}, "", "  ") + "\n"
}

func (f jsonFile) set(old []byte, s Server) ([]byte, error) {
	mark, text := cutMark(old)
	if len(bytes.TrimSpace(text)) == 0 {
		return append(mark, f.snippet(s)...), nil
	}
	doc, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	servers, err := doc.servers(f.key)
	if err != nil {
		return nil, err
	}
	if servers == nil {
		servers = doc.addServers(f.key)
	}
	value, err := memberObject(servers, s.Name)
	switch {
	case err != nil:
		return nil, err
	case value == nil:
		doc.add(servers, 2, s.Name, f.entry(s))
	default:
		if err := doc.change(value, s); err != nil {
			return nil, err
		}
	}
	return doc.checked(mark, text, f.key, s.Name, &s)
}

func (f jsonFile) remove(old []byte, name string) ([]byte, error) {
	mark, text := cutMark(old)
	if len(bytes.TrimSpace(text)) == 0 {
		return old, nil
	}
	doc, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	servers, err := doc.servers(f.key)
	if err != nil || servers == nil {
		return old, err
	}
	value, err := memberObject(servers, name)
	if err != nil || value == nil {
		return old, err
	}
	drop(servers, name)
	return doc.checked(mark, text, f.key, name, nil)
}

func (f jsonFile) find(old []byte, name string) map[string]any {
	_, text := cutMark(old)
	doc, err := parseJSON(text)
	if err != nil {
		return nil
	}
	servers, err := doc.servers(f.key)
	if err != nil || servers == nil {
		return nil
	}
	value, err := member(servers, name)
	if err != nil || value == nil {
		return nil
	}
	entry, _ := meaning(*value).(map[string]any)
	return entry
}

// drop takes a member out. Comments before it stay.
func drop(in *hujson.Object, name string) {
	i := slices.IndexFunc(in.Members, func(m hujson.ObjectMember) bool {
		literal, ok := m.Name.Value.(hujson.Literal)
		return ok && literal.String() == name
	})
	gone := in.Members[i]
	in.Members = slices.Delete(in.Members, i, i+1)
	next := &in.AfterExtra
	if i < len(in.Members) {
		next = &in.Members[i].Name.BeforeExtra
	} else if i > 0 {
		in.Members[i-1].Value.AfterExtra = gone.Value.AfterExtra // a comma at the end, or none
	}
	kept := bytes.TrimRight(gone.Name.BeforeExtra, " \t\r\n")
	if bytes.Contains(kept, []byte("//")) && !bytes.ContainsRune(*next, '\n') {
		kept = append(slices.Clone(kept), '\n')
	}
	*next = slices.Concat(hujson.Extra(kept), *next)
}

// servers gives the object of servers, nil where there is none.
func (d *document) servers(key string) (*hujson.Object, error) {
	root, ok := d.root.Value.(*hujson.Object)
	if !ok {
		return nil, fault{ErrMalformed, "the file holds no object; " + byHand}
	}
	return memberObject(root, key)
}

// addServers adds an empty object of servers.
func (d *document) addServers(key string) *hujson.Object {
	root, ok := d.root.Value.(*hujson.Object)
	if !ok {
		panic("servers has seen an object") // never
	}
	servers := &hujson.Object{}
	d.append(root, 1, key, servers)
	return servers
}

// memberObject gives the object of a name, nil where there is none.
func memberObject(in *hujson.Object, name string) (*hujson.Object, error) {
	value, err := member(in, name)
	if err != nil || value == nil {
		return nil, err
	}
	found, ok := value.Value.(*hujson.Object)
	if !ok {
		return nil, fault{ErrConflict, fmt.Sprintf("%q is there, but it is no object; %s", name, byHand)}
	}
	return found, nil
}

// member gives the value of a name, nil where there is none. A name that comes
// twice is refused: programs differ in which of the two they take.
func member(in *hujson.Object, name string) (*hujson.Value, error) {
	var found *hujson.Value
	for i := range in.Members {
		literal, ok := in.Members[i].Name.Value.(hujson.Literal)
		if !ok || literal.String() != name {
			continue
		}
		if found != nil {
			return nil, fault{ErrMalformed, fmt.Sprintf("%q is there twice; %s", name, byHand)}
		}
		found = &in.Members[i].Value
	}
	return found, nil
}

// change makes an entry start the server and keeps what else it holds.
func (d *document) change(in *hujson.Object, s Server) error {
	held := map[string]any{}
	for _, name := range slices.Concat(addressKeys(), kindKeys()) {
		value, err := member(in, name)
		if err != nil {
			return err
		}
		if value != nil {
			held[name] = meaning(*value)
		}
	}
	if isRemote(held) {
		return remote(s.Name)
	}
	if err := d.setMember(in, "command", s.Command); err != nil {
		return err
	}
	return d.setMember(in, "args", s.Args)
}

// setMember sets one value of an entry, where it differs.
func (d *document) setMember(in *hujson.Object, name string, want any) error {
	value, err := member(in, name)
	switch {
	case err != nil:
		return err
	case value == nil:
		d.add(in, 3, name, want)
		return nil
	case reflect.DeepEqual(meaning(*value), decoded(jsonText(want, "", ""))):
		return nil
	case hasComment(*value):
		return fault{ErrConflict, fmt.Sprintf("%q has a comment inside, which the change would lose; %s", name, byHand)}
	}
	indent := ""
	if strings.Contains(value.String(), "\n") {
		indent = d.indent
	}
	value.Value = d.value(want, d.depthOf(in, 3), indent)
	return nil
}

// hasComment tells whether there is one inside a value.
func hasComment(v hujson.Value) bool {
	v = v.Clone()
	v.BeforeExtra, v.AfterExtra = nil, nil
	for part := range v.All() {
		extras := [][]byte{part.BeforeExtra, part.AfterExtra}
		switch inside := part.Value.(type) {
		case *hujson.Object:
			extras = append(extras, inside.AfterExtra)
		case *hujson.Array:
			extras = append(extras, inside.AfterExtra)
		}
		if bytes.ContainsRune(bytes.Join(extras, nil), '/') {
			return true
		}
	}
	return false
}
