package serve

import (
	"context"
	_ "embed" // the icon
	"encoding/base64"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// listTTL is how long a client may keep the lists, in milliseconds: they
// never change while a server runs.
const listTTL = 60 * 60 * 1000

// Options describe the server to its clients.
type Options struct {
	Version   string
	Tools     []server.ServerTool
	Templates []server.ServerResourceTemplate
	// Resources lists what the caller can read, page by page; nil: nothing.
	Resources func(ctx context.Context, cursor string) (list []mcp.Resource, next string, err error)
	Prompts   []server.ServerPrompt
	// Completions complete arguments of prompts and templates; nil: none.
	Completions Completions
	// Instructions is asked anew for each client; it must not block.
	Instructions func() string
	// OnEnd is told the SessionID of every connection that has ended: the pipe
	// of stdio, a stream of SSE, a protocol session of HTTP. It must not block.
	OnEnd func(connection string)
	// OnBegin comes once for every connection, before its OnEnd. It must not block.
	OnBegin func(connection string)
	// OnUnknownTool is told of calls that name no tool; nil: nobody is.
	OnUnknownTool func(context.Context, *mcp.CallToolRequest)
}

// Completions complete arguments.
type Completions interface {
	server.PromptCompletionProvider
	server.ResourceCompletionProvider
}

//go:embed icon.png
var icon []byte

// What the server is called.
const (
	serverName  = "biocage"
	serverTitle = "BioCage"
)

// introduce says all of who the server is, once: in the protocol's second era
// every answer names the server, and the icon would travel in each.
func introduce(hooks *server.Hooks, version string) {
	whole := mcp.Implementation{
		Name: serverName, Title: serverTitle, Version: version,
		Description: "An isolated, persistent Python interpreter",
		WebsiteURL:  "https://github.com/biocypher/biocage-mcp",
		Icons: []mcp.Icon{{
			Src: "data:image/png;base64," + base64.StdEncoding.EncodeToString(icon), MIMEType: "image/png", Sizes: []string{"64x64"},
		}},
	}
	hooks.AddAfterInitialize(func(_ context.Context, _ any, _ *mcp.InitializeRequest, result *mcp.InitializeResult) {
		result.ServerInfo = whole
	})
	hooks.AddAfterDiscover(func(_ context.Context, _ any, _ *mcp.DiscoverRequest, result *mcp.DiscoverResult) {
		result.EnsureResultMeta().SetServerInfo(whole)
	})
}

// NewServer makes the MCP server: tools, prompts and resource templates that
// never change, and no logging, subscriptions or tasks.
func NewServer(opts Options) *server.MCPServer {
	hooks := &server.Hooks{}
	introduce(hooks, opts.Version)
	if opts.Instructions != nil {
		hooks.AddAfterInitialize(func(_ context.Context, _ any, _ *mcp.InitializeRequest, result *mcp.InitializeResult) {
			result.Instructions = opts.Instructions()
		})
		hooks.AddAfterDiscover(func(_ context.Context, _ any, _ *mcp.DiscoverRequest, result *mcp.DiscoverResult) {
			result.Instructions = opts.Instructions()
		})
	}
	if opts.OnBegin != nil {
		hooks.AddOnRegisterSession(func(_ context.Context, session server.ClientSession) {
			opts.OnBegin(session.SessionID())
		})
	}
	if opts.OnEnd != nil {
		hooks.AddOnUnregisterSession(func(_ context.Context, session server.ClientSession) {
			opts.OnEnd(session.SessionID())
		})
	}
	hooks.AddOnError(func(ctx context.Context, _ any, _ mcp.MCPMethod, message any, err error) {
		judge(ctx, err)
		if request, ok := message.(*mcp.CallToolRequest); ok && opts.OnUnknownTool != nil && errors.Is(err, server.ErrToolNotFound) {
			opts.OnUnknownTool(ctx, request)
		}
	})
	if opts.Resources != nil {
		hooks.AddAfterListResources(func(ctx context.Context, _ any, request *mcp.ListResourcesRequest, result *mcp.ListResourcesResult) {
			list, next, err := opts.Resources(ctx, string(request.Params.Cursor))
			if err != nil {
				judge(ctx, err)
				return
			}
			result.Resources, result.NextCursor = list, mcp.Cursor(next)
		})
	}
	s := server.NewMCPServer(serverName, opts.Version,
		server.WithTitle(serverTitle),
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, false),
		server.WithMethodCacheHints(mcp.MethodToolsList, listTTL, mcp.CacheScopePublic),
		server.WithMethodCacheHints(mcp.MethodResourcesList, 0, mcp.CacheScopePrivate),
		server.WithMethodCacheHints(mcp.MethodResourcesTemplatesList, listTTL, mcp.CacheScopePublic),
		server.WithMethodCacheHints(mcp.MethodPromptsList, listTTL, mcp.CacheScopePublic),
		server.WithHooks(hooks),
	)
	if opts.Completions != nil {
		server.WithCompletions()(s)
		server.WithPromptCompletionProvider(opts.Completions)(s)
		server.WithResourceCompletionProvider(opts.Completions)(s)
	}
	if len(opts.Prompts) > 0 {
		server.WithPromptCapabilities(false)(s)
		s.AddPrompts(opts.Prompts...)
	}
	s.AddTools(opts.Tools...)
	for _, template := range opts.Templates {
		s.AddResourceTemplate(template.Template, template.Handler)
	}
	return s
}
