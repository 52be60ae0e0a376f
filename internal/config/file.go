package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/biocypher/biocage-mcp/internal/spell"
)

// readFile reads the file's text. It walks the syntax tree itself instead of
// using the library's decoder, because that one stops at its first fault.
func (l *loader) readFile(data []byte) {
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			l.fault(l.at(syntax.GetToken().Position.Line), "", "this is not YAML: "+syntax.GetMessage())
			return
		}
		l.fault(l.file, "", "this is not YAML: "+firstLine(err.Error()))
		return
	}
	if len(tree.Docs) > 1 && tree.Docs[1].Body != nil {
		l.fault(l.file, "", "holds more than one YAML document; keep one")
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return
	}
	l.section(tree.Docs[0].Body, "", reflect.ValueOf(l.cfg).Elem())
}

func (l *loader) at(line int) string { return l.file + ":" + strconv.Itoa(line) }

func (l *loader) atNode(n ast.Node) string { return l.at(n.GetToken().Position.Line) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// section reads a mapping into a struct.
func (l *loader) section(n ast.Node, prefix string, target reflect.Value) {
	entries, ok := l.entries(n, prefix)
	if !ok {
		return
	}
	seen := map[string]bool{}
	for _, entry := range entries {
		name := entry.Key.GetToken().Value
		key := prefix + name
		switch i := fieldNamed(target.Type(), name); {
		case seen[name]:
			l.fault(l.atNode(entry.Key), key, "is given twice; keep one")
		case i < 0:
			l.fault(l.atNode(entry.Key), key, unknownKey(name, target.Type()))
		default:
			l.origin[key] = l.atNode(entry.Key)
			l.value(entry.Value, key, target.Field(i))
		}
		seen[name] = true
	}
}

// entries gives the entries of a mapping. A null is an empty mapping.
func (l *loader) entries(n ast.Node, prefix string) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	case *ast.NullNode, *ast.CommentGroupNode:
		return nil, true
	}
	l.fault(l.atNode(n), strings.TrimSuffix(prefix, "."), "must be a mapping (key: value), not "+kindOf(n))
	return nil, false
}

// value reads one value into a leaf, a list or a nested section.
func (l *loader) value(n ast.Node, key string, target reflect.Value) {
	switch target.Kind() {
	case reflect.Struct:
		l.section(n, key+".", target)
	case reflect.Slice:
		l.list(n, key, target)
	default:
		l.scalar(n, key, target)
	}
}

func (l *loader) list(n ast.Node, key string, target reflect.Value) {
	if _, ok := n.(*ast.NullNode); ok {
		return
	}
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		l.fault(l.atNode(n), key, "must be a list, not "+kindOf(n))
		return
	}
	list := reflect.MakeSlice(target.Type(), len(sequence.Values), len(sequence.Values))
	for i, item := range sequence.Values {
		itemKey := fmt.Sprintf("%s[%d]", key, i)
		l.origin[itemKey] = l.atNode(item)
		l.value(item, itemKey, list.Index(i))
	}
	target.Set(list)
}

func (l *loader) scalar(n ast.Node, key string, target reflect.Value) {
	var text string
	switch n := n.(type) {
	case *ast.NullNode: // "key:" with nothing behind it keeps the default
		return
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		text = n.GetToken().Value
		if _, isBool := n.(*ast.BoolNode); isBool != (target.Kind() == reflect.Bool) {
			l.fault(l.atNode(n), key, wrongType(target, text))
			return
		}
	case *ast.NanNode, *ast.InfinityNode:
		l.fault(l.atNode(n), key, n.GetToken().Value+" is not a "+targetName(target))
		return
	default:
		l.fault(l.atNode(n), key, "must be a single value, not "+kindOf(n))
		return
	}
	if err := setScalar(target, text); err != nil {
		l.fault(l.atNode(n), key, err.Error())
	}
}

func wrongType(target reflect.Value, text string) string {
	if target.Kind() == reflect.Bool {
		return text + " is neither true nor false"
	}
	return text + " is a truth value; a " + targetName(target) + " is meant"
}

func targetName(target reflect.Value) string {
	switch target.Interface().(type) {
	case Size:
		return "size such as 512m"
	case Duration:
		return "duration such as 30s"
	case string:
		return "text"
	}
	return "number"
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return "an alias or anchor"
	case *ast.TagNode:
		return "a tagged value"
	}
	return "a single value"
}

func fieldNamed(t reflect.Type, name string) int {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") == name {
			return i
		}
	}
	return -1
}

func unknownKey(name string, t reflect.Type) string {
	known := make([]string, t.NumField())
	for i := range known {
		known[i] = t.Field(i).Tag.Get("yaml")
	}
	if near := spell.Nearest(name, known); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	return "unknown key; known here: " + strings.Join(known, ", ")
}
