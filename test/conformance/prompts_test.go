package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func addResources(s *server.MCPServer) {
	s.AddResource(mcp.Resource{URI: "test://static-text", Name: "static-text", Description: "A text.", MIMEType: "text/plain"},
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResourceContents{
				URI: "test://static-text", MIMEType: "text/plain", Text: "This is the content of the static text resource.",
			}}, nil
		})
	s.AddResource(mcp.Resource{URI: "test://static-binary", Name: "static-binary", Description: "A picture.", MIMEType: "image/png"},
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.BlobResourceContents{URI: "test://static-binary", MIMEType: "image/png", Blob: picture}}, nil
		})
	s.AddResourceTemplate(mcp.NewResourceTemplate("test://template/{id}/data", "template", mcp.WithTemplateDescription("A template.")),
		func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			text, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
			return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, MIMEType: "application/json", Text: string(text)}}, err
		})
}

func addPrompts(s *server.MCPServer) {
	s.AddPrompt(prompt("test_simple_prompt"), says(func(map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewTextContent("This is a simple prompt for testing.")}
	}))
	s.AddPrompt(prompt("test_prompt_with_arguments", "arg1", "arg2"), says(func(args map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewTextContent(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"]))}
	}))
	s.AddPrompt(prompt("test_prompt_with_embedded_resource", "resourceUri"), says(func(args map[string]string) []mcp.Content {
		return []mcp.Content{
			embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing."),
			mcp.NewTextContent("Please process the embedded resource above."),
		}
	}))
	s.AddPrompt(prompt("test_prompt_with_image"), says(func(map[string]string) []mcp.Content {
		return []mcp.Content{mcp.NewImageContent(picture, "image/png"), mcp.NewTextContent("Please analyze the image above.")}
	}))
	s.AddPrompt(prompt("test_input_required_result_prompt"), func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if answers := r.Params.InputResponses; server.ElicitationResponse(answers, "user_context") != nil {
			return message(mcp.NewTextContent(told(answers))), nil
		}
		b := server.NewInputRequestBuilder("")
		ask("user_context", "What context should the prompt use?", "context", "string")(b)
		return b.PromptResult(), nil
	})
}

func prompt(name string, arguments ...string) mcp.Prompt {
	p := mcp.Prompt{Name: name, Description: "A fixture of the conformance suite."}
	for _, argument := range arguments {
		p.Arguments = append(p.Arguments, mcp.PromptArgument{Name: argument, Description: "An argument.", Required: true})
	}
	return p
}

func says(content func(map[string]string) []mcp.Content) server.PromptHandlerFunc {
	return func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return message(content(r.Params.Arguments)...), nil
	}
}

func message(contents ...mcp.Content) *mcp.GetPromptResult {
	result := &mcp.GetPromptResult{}
	for _, content := range contents {
		result.Messages = append(result.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: content})
	}
	return result
}
