package tools

import (
	"encoding/json"
	"fmt"

	"github.com/invopop/jsonschema"

	"github.com/biocypher/biocage-mcp/session"
)

// inputSchema reflects a tool's arguments. Descriptions must come from the
// jsonschema_description tag: a comma would cut one in the jsonschema tag.
func inputSchema[In any](adjust func(*jsonschema.Schema)) *jsonschema.Schema {
	var in In
	schema := reflectSchema(in)
	if adjust != nil {
		adjust(schema)
	}
	return schema
}

// outputSchema reflects a result object. The reflector knows no null, so the
// two fields that can be null are widened by hand.
func outputSchema(output any) *jsonschema.Schema {
	schema := reflectSchema(output)
	if _, ok := output.(session.RunResult); ok {
		for _, name := range []string{"result", "error"} {
			if field, ok := schema.Properties.Get(name); ok {
				schema.Properties.Set(name, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{field, {Type: "null"}}})
			}
		}
	}
	return schema
}

func reflectSchema(value any) *jsonschema.Schema {
	reflector := jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true}
	schema := reflector.Reflect(value)
	schema.Version = ""
	return schema
}

// encodeSchema panics when a schema cannot be encoded, which is a fault in a
// struct's tags.
func encodeSchema(schema *jsonschema.Schema) json.RawMessage {
	data, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("tools: encode schema: %v", err))
	}
	return data
}

// names lists the properties of a schema in order.
func names(schema *jsonschema.Schema) []string {
	var list []string
	for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
		list = append(list, pair.Key)
	}
	return list
}
