package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/biocypher/biocage-mcp/internal/spell"
	"github.com/biocypher/biocage-mcp/session"
)

// maxNumber is the largest whole number that every reader of JSON understands.
const maxNumber = 1 << 53

// decode checks raw arguments against the schema and reads them into in.
// Unknown names are refused; numbers and truth values that came as text are
// taken for what they say, because models send such.
func decode(tool string, schema *jsonschema.Schema, raw, in any) error {
	arguments, err := object(tool, raw)
	if err != nil {
		return err
	}
	clean := make(map[string]json.RawMessage, len(arguments))
	for _, name := range slices.Sorted(keys(arguments)) {
		property, ok := schema.Properties.Get(name)
		if !ok {
			return unknownArgument(tool, name, names(schema))
		}
		if isNull(arguments[name]) && !slices.Contains(schema.Required, name) {
			continue
		}
		value, message := coerce(property, arguments[name])
		if message != "" {
			return badArgument(name, fmt.Sprintf("%s must be %s.", name, message))
		}
		clean[name] = value
	}
	for _, name := range schema.Required {
		if _, ok := clean[name]; !ok {
			return badArgument(name, fmt.Sprintf("%s needs the argument %s.", tool, name))
		}
	}
	encoded, err := json.Marshal(clean)
	if err != nil {
		return fmt.Errorf("encode arguments: %w", err)
	}
	if err := json.Unmarshal(encoded, in); err != nil {
		return fmt.Errorf("decode arguments: %w", err)
	}
	return nil
}

func keys(m map[string]json.RawMessage) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

func badArgument(name, message string) error {
	return &session.ArgumentError{Argument: name, Message: message}
}

// object reads raw arguments; none at all are an empty object.
func object(tool string, raw any) (map[string]json.RawMessage, error) {
	text, ok := raw.(json.RawMessage)
	if !ok {
		encoded, err := json.Marshal(raw)
		if err != nil {
			return nil, fmt.Errorf("encode arguments: %w", err)
		}
		text = encoded
	}
	if len(text) == 0 || isNull(text) {
		return nil, nil
	}
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(text, &arguments); err != nil {
		return nil, badArgument("arguments", tool+" takes its arguments as a JSON object.")
	}
	return arguments, nil
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

func unknownArgument(tool, name string, known []string) error {
	message := fmt.Sprintf("%s has no argument %s", tool, shorten(strconv.Quote(name), 60))
	if near := spell.Nearest(name, known); near != "" {
		message += "; did you mean " + near + "?"
	} else {
		message += "."
	}
	return badArgument(name, message+" It takes: "+strings.Join(known, ", ")+".")
}

// coerce gives a value in the schema's type, or says what it must be.
func coerce(schema *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, string) {
	raw = bytes.TrimSpace(raw)
	switch schema.Type {
	case "string":
		return coerceString(schema, raw)
	case "boolean":
		switch strings.ToLower(unquote(raw)) {
		case "true":
			return json.RawMessage("true"), ""
		case "false":
			return json.RawMessage("false"), ""
		}
		return nil, "true or false"
	case "number", "integer":
		return coerceNumber(schema, raw)
	}
	return raw, ""
}

func coerceString(schema *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, string) {
	if raw[0] != '"' {
		return nil, "text"
	}
	if len(schema.Enum) > 0 && !slices.Contains(schema.Enum, any(unquote(raw))) {
		allowed := make([]string, len(schema.Enum))
		for i, value := range schema.Enum {
			allowed[i] = fmt.Sprint(value)
		}
		return nil, strings.Join(allowed, " or ")
	}
	if schema.MinLength != nil && *schema.MinLength > 0 && strings.TrimSpace(unquote(raw)) == "" {
		return nil, "text that is not empty"
	}
	return raw, ""
}

func coerceNumber(schema *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, string) {
	wanted := describeNumber(schema)
	if raw[0] != '"' && raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return nil, wanted
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(unquote(raw)), 64)
	whole := schema.Type == "integer"
	if math.Abs(n) > maxNumber && schema.Maximum == "" {
		return nil, wanted + fmt.Sprintf(" and at most %d", int64(maxNumber))
	}
	if err != nil || !inRange(schema, n) || whole && n != math.Trunc(n) {
		return nil, wanted
	}
	if whole {
		return strconv.AppendInt(nil, int64(n), 10), ""
	}
	return strconv.AppendFloat(nil, n, 'g', -1, 64), ""
}

// inRange tells whether a number is within the schema's bounds, and one that
// every reader of JSON understands alike.
func inRange(schema *jsonschema.Schema, n float64) bool {
	if math.IsNaN(n) || math.Abs(n) > maxNumber {
		return false
	}
	low, hasLow := bound(schema.Minimum)
	high, hasHigh := bound(schema.Maximum)
	return (!hasLow || n >= low) && (!hasHigh || n <= high)
}

func describeNumber(schema *jsonschema.Schema) string {
	text := "a number"
	if schema.Type == "integer" {
		text = "a whole number"
	}
	switch {
	case schema.Minimum != "" && schema.Maximum != "":
		text += fmt.Sprintf(" between %s and %s", schema.Minimum, schema.Maximum)
	case schema.Minimum != "":
		text += " of at least " + schema.Minimum.String()
	case schema.Maximum != "":
		text += " of at most " + schema.Maximum.String()
	}
	return text
}

func bound(n json.Number) (float64, bool) {
	value, err := n.Float64()
	return value, err == nil
}

// unquote gives a JSON string's text, or raw as it is.
func unquote(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
