package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/session"
)

// A limitField is one name of session_reset's limits.
type limitField struct {
	name string
	kind string // of the schema; sizes are text, and numbers are taken too
	set  func(*session.Limits, string) error
}

func limitFields() []limitField {
	return []limitField{
		{"memory", "string", func(l *session.Limits, text string) error { return setSize(&l.MemoryBytes, text) }},
		{"cpus", "number", func(l *session.Limits, text string) error { return setNumber(&l.CPUs, text) }},
		{"pids", "integer", func(l *session.Limits, text string) error {
			n, err := strconv.ParseInt(text, 10, 64)
			l.PIDs = n
			if err != nil || n <= 0 {
				return fmt.Errorf("%q is not a whole number above 0", text)
			}
			return nil
		}},
		{"disk", "string", func(l *session.Limits, text string) error { return setSize(&l.DiskBytes, text) }},
		{"timeout_seconds", "number", func(l *session.Limits, text string) error {
			var seconds float64
			err := setNumber(&seconds, text)
			l.Timeout = time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
			return err
		}},
		{"max_output", "string", func(l *session.Limits, text string) error { return setSize(&l.MaxOutput, text) }},
	}
}

func setSize(target *int64, text string) error {
	size, err := config.ParseSize(text)
	if err != nil {
		return err
	}
	if *target = int64(size); size == 0 {
		return fmt.Errorf("%q is not a size above 0", text)
	}
	return nil
}

func setNumber(target *float64, text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is not a number above 0", text)
	}
	*target = n
	return nil
}

// limitsSchema says what limits may hold.
func limitsSchema() *jsonschema.Schema {
	properties := jsonschema.NewProperties()
	for _, f := range limitFields() {
		properties.Set(f.name, &jsonschema.Schema{Type: f.kind})
	}
	return &jsonschema.Schema{Type: "object", Properties: properties, Description: "Lower limits from now on; sizes: 512m."}
}

// parseLimits reads limits, strictly; nil when there are none. Models also
// send the object as a text, and numbers as texts.
func parseLimits(raw json.RawMessage) (*session.Limits, error) {
	if len(raw) == 0 || isNull(raw) {
		return nil, nil //nolint:nilnil // none were asked for
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal([]byte(unquote(raw)), &given); err != nil || given == nil {
		return nil, badArgument("limits", `limits must be an object, such as {"memory": "512m", "cpus": 1}.`)
	}
	limits := &session.Limits{}
	var known []string
	for _, f := range limitFields() {
		known = append(known, f.name)
		value, ok := given[f.name]
		delete(given, f.name)
		if !ok || isNull(value) {
			continue
		}
		if err := f.set(limits, strings.TrimSpace(unquote(value))); err != nil {
			return nil, badArgument("limits", fmt.Sprintf("limits.%s: %s.", f.name, shorten(err.Error(), 200)))
		}
	}
	for name := range given {
		return nil, unknownArgument("limits", name, known)
	}
	return limits, nil
}
