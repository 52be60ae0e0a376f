package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The smallest picture and the shortest sound there are.
const (
	picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	sound   = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// plainTools answer at once.
func plainTools() []server.ServerTool {
	return []server.ServerTool{
		fixed("test_simple_text", mcp.NewTextContent("This is a simple text response for testing.")),
		fixed("test_image_content", mcp.NewImageContent(picture, "image/png")),
		fixed("test_audio_content", mcp.NewAudioContent(sound, "audio/wav")),
		fixed("test_embedded_resource", embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
		fixed("test_multiple_content_types",
			mcp.NewTextContent("Multiple content types test:"),
			mcp.NewImageContent(picture, "image/png"),
			embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)),
		tool("test_error_handling", nil, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultError("This tool intentionally returns an error for testing"), nil
		}),
		tool("json_schema_2020_12_tool", json.RawMessage(richSchema), nothing),
		tool("test_custom_headers", json.RawMessage(headerSchema), nothing),
		tool("test_streaming_elicitation", nil, nothing),
	}
}

// richSchema has what the suite looks for: keywords of JSON Schema 2020-12.
const richSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object",
		"properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

// headerSchema has arguments that travel as HTTP headers too.
const headerSchema = `{
	"type": "object",
	"properties": {
		"region": {"type": "string", "x-mcp-header": "Region"},
		"priority": {"type": "integer", "x-mcp-header": "Priority"},
		"query": {"type": "string"}
	}
}`

// tellingTools notify while they run.
func tellingTools() []server.ServerTool {
	return []server.ServerTool{
		tool("test_logging_tool", nil, nothing), // says nothing to who has not asked for a level
		tool("test_tool_with_progress", nil, func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
				return nil, fmt.Errorf("no progress token came")
			}
			for _, part := range []int{0, 50, 100} {
				err := notify(ctx, string(mcp.MethodNotificationProgress), map[string]any{
					"progressToken": r.Params.Meta.ProgressToken, "progress": part, "total": 100,
				})
				if err != nil {
					return nil, err
				}
				time.Sleep(50 * time.Millisecond) // as the scenario asks
			}
			return mcp.NewToolResultText("done"), nil
		}),
	}
}

func notify(ctx context.Context, method string, params map[string]any) error {
	return server.ServerFromContext(ctx).SendNotificationToClient(ctx, method, params)
}

func tool(name string, schema json.RawMessage, handle server.ToolHandlerFunc) server.ServerTool {
	if schema == nil {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	return server.ServerTool{
		Tool:    mcp.Tool{Name: name, Description: "A fixture of the conformance suite.", RawInputSchema: schema},
		Handler: handle,
	}
}

func fixed(name string, content ...mcp.Content) server.ServerTool {
	return tool(name, nil, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	})
}

func nothing(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("ok"), nil
}

func embedded(uri, mime, text string) mcp.Content {
	return mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: text})
}
