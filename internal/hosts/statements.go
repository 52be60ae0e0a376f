package hosts

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// A statement is one or more whole lines of a TOML file that belong together:
// a header, a key with its value, a comment, or an empty line.
type statement struct {
	text   string
	header bool
	table  []string // whose header this is, or in which it stands
	key    string   // of a value: the first part of its name
}

// maxStatement is how many lines one value may have.
const maxStatement = 500

// statements cuts a valid file. A value ends with the first line up to which
// the TOML library can read it.
func statements(text string) ([]statement, error) {
	var (
		all   []statement
		table []string
		lines = strings.SplitAfter(text, "\n")
	)
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" {
			continue
		}
		st := statement{text: lines[i]}
		var got map[string]any
		for n := 1; ; n++ {
			if _, err := toml.Decode(st.text, &got); err == nil {
				break
			}
			if n == maxStatement || i+1 == len(lines) {
				return nil, fault{ErrConflict, fmt.Sprintf("the value that ends in line %d cannot be followed; %s", i+1, byHand)}
			}
			i++
			st.text, got = st.text+lines[i], nil
		}
		trimmed := strings.TrimSpace(strings.TrimPrefix(st.text, "\ufeff"))
		switch {
		case strings.HasPrefix(trimmed, "["):
			st.header, table = true, branch(got)
		case len(got) > 0:
			st.key = branch(got)[0]
		}
		st.table = table
		all = append(all, st)
	}
	return all, nil
}

// branch gives the names down to where a tree ends or branches.
func branch(tree map[string]any) []string {
	var names []string
	for len(tree) == 1 {
		for name, below := range tree {
			names = append(names, name)
			tree, _ = below.(map[string]any) // nil ends the path
		}
	}
	return names
}

// comment gives what follows the value, with the space before it. A comment
// inside a value of more than one line cannot be kept.
func (st statement) comment() (string, error) {
	text := strings.TrimRight(st.text, "\r\n")
	for i, c := range text {
		if c != '#' {
			continue
		}
		var got map[string]any
		if _, err := toml.Decode(text[:i], &got); err == nil {
			return text[len(strings.TrimRight(text[:i], " \t")):], nil
		}
		if strings.Contains(text[i:], "\n") {
			return "", fault{ErrConflict, fmt.Sprintf("%q has a comment inside, which the change would lose; %s", st.key, byHand)}
		}
	}
	return "", nil
}

func join(all []statement) string {
	var b strings.Builder
	for _, st := range all {
		b.WriteString(st.text)
	}
	return b.String()
}
