package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// A tomlFile is TOML with a table for each server below one key.
type tomlFile struct{ key string }

func (f tomlFile) snippet(s Server) string {
	return fmt.Sprintf("[%s.%s]\ncommand = %s\nargs = %s\n", f.key, s.Name, tomlText(s.Command), tomlText(s.Args))
}

// tomlText is a string or a list of strings: TOML's are JSON's.
func tomlText(v any) string { return jsonText(v, "", "") }

func (f tomlFile) set(old []byte, s Server) ([]byte, error) {
	all, before, err := readTOML(old)
	if err != nil {
		return nil, err
	}
	newline := "\n"
	if bytes.Contains(old, []byte("\r\n")) {
		newline = "\r\n"
	}
	entry, there := lookup(before, f.key, s.Name)
	var text string
	switch {
	case slices.ContainsFunc(all, func(st statement) bool { return len(st.table) == 0 && st.key == f.key }):
		return nil, fault{ErrConflict, fmt.Sprintf("%s is one value, to which no table can be added; %s", f.key, byHand)}
	case !there:
		text = appended(string(old), strings.ReplaceAll(f.snippet(s), "\n", newline), newline)
	case isRemote(entry):
		return nil, remote(s.Name)
	default:
		if text, err = f.change(all, entry, s, newline); err != nil {
			return nil, err
		}
	}
	entry = object(object(before, f.key), s.Name)
	entry["command"], entry["args"] = s.Command, anys(s.Args)
	return sameTOML(text, before)
}

// appended puts a table behind everything else.
func appended(old, table, newline string) string {
	switch {
	case strings.TrimSpace(old) == "":
		return old + table
	case !strings.HasSuffix(old, "\n"):
		old += newline
	}
	return old + newline + table
}

// change replaces the two values of a server's table.
func (f tomlFile) change(all []statement, entry map[string]any, s Server, newline string) (string, error) {
	table := []string{f.key, s.Name}
	head := slices.IndexFunc(all, func(st statement) bool { return st.header && slices.Equal(st.table, table) })
	if head < 0 {
		return "", fault{ErrConflict, fmt.Sprintf("the server %q has no table [%s.%s] of its own; %s", s.Name, f.key, s.Name, byHand)}
	}
	all = slices.Clone(all)
	for _, pair := range []struct {
		key  string
		want any
		text string
	}{{"command", s.Command, tomlText(s.Command)}, {"args", anys(s.Args), tomlText(s.Args)}} {
		if reflect.DeepEqual(entry[pair.key], pair.want) {
			continue
		}
		line := pair.key + " = " + pair.text
		i := slices.IndexFunc(all, func(st statement) bool { return slices.Equal(st.table, table) && st.key == pair.key })
		if i < 0 {
			all[head].text = strings.TrimRight(all[head].text, "\r\n") + newline + line + newline
			continue
		}
		comment, err := all[i].comment()
		if err != nil {
			return "", err
		}
		space := all[i].text[:len(all[i].text)-len(strings.TrimLeft(all[i].text, " \t"))]
		end := all[i].text[len(strings.TrimRight(all[i].text, "\r\n")):]
		all[i].text = space + line + comment + end
	}
	return join(all), nil
}

func (f tomlFile) find(old []byte, name string) map[string]any {
	_, all, err := readTOML(old)
	if err != nil {
		return nil
	}
	entry, there := lookup(all, f.key, name)
	if there && entry == nil {
		entry = map[string]any{}
	}
	return entry
}

func (f tomlFile) remove(old []byte, name string) ([]byte, error) {
	all, before, err := readTOML(old)
	if err != nil {
		return nil, err
	}
	if _, there := lookup(before, f.key, name); !there {
		return old, nil
	}
	table := []string{f.key, name}
	var kept []statement
	for _, st := range all {
		own := len(st.table) >= 2 && slices.Equal(st.table[:2], table)
		if !own || st.key == "" && !st.header { // comments and empty lines stay
			kept = append(kept, st)
		}
	}
	delete(object(before, f.key), name)
	made, err := sameTOML(join(kept), before)
	if err != nil && len(object(before, f.key)) == 0 { // it was there through the one server
		delete(before, f.key)
		return sameTOML(join(kept), before)
	}
	return made, err
}

// lookup gives a server's table.
func lookup(all map[string]any, key, name string) (map[string]any, bool) {
	servers, ok := all[key].(map[string]any)
	if !ok {
		return nil, false
	}
	if _, ok := servers[name]; !ok {
		return nil, false
	}
	entry, ok := servers[name].(map[string]any)
	if !ok {
		return map[string]any{}, true // change finds no table
	}
	return entry, true
}

// sameTOML gives the text, which must mean what is wanted.
func sameTOML(text string, want map[string]any) ([]byte, error) {
	var got map[string]any
	_, err := toml.Decode(text, &got)
	if err != nil || len(got)+len(want) > 0 && !reflect.DeepEqual(want, got) {
		return nil, fault{ErrConflict, "the file has a form that this program cannot change safely; " + byHand}
	}
	return []byte(text), nil
}

func anys(list []string) []any {
	all := make([]any, 0, len(list))
	for _, s := range list {
		all = append(all, s)
	}
	return all
}

// readTOML gives a file's statements and meaning.
func readTOML(old []byte) ([]statement, map[string]any, error) {
	meaning := map[string]any{}
	if _, err := toml.Decode(string(old), &meaning); err != nil {
		text := err.Error()
		if parse := (toml.ParseError{}); errors.As(err, &parse) {
			text = fmt.Sprintf("line %d: %s", parse.Position.Line, first(parse.Message, parse.Error()))
		}
		return nil, nil, fault{ErrMalformed, text + "; " + byHand}
	}
	all, err := statements(string(old))
	return all, meaning, err
}
