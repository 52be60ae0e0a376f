package serve

import (
	"context"

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
	// Instructions is asked anew for each client; it must not block.
	Instructions func() string
	// OnEnd is told the SessionID of every connection that has ended: the pipe
	// of stdio, a stream of SSE, a protocol session of HTTP. It must not block.
	OnEnd func(connection string)
}

// NewServer makes the MCP server: tools and resource templates that never
// change, and no logging, prompts, subscriptions or tasks.
func NewServer(opts Options) *server.MCPServer {
	hooks := &server.Hooks{}
	if opts.Instructions != nil {
		hooks.AddAfterInitialize(func(_ context.Context, _ any, _ *mcp.InitializeRequest, result *mcp.InitializeResult) {
			result.Instructions = opts.Instructions()
		})
		hooks.AddAfterDiscover(func(_ context.Context, _ any, _ *mcp.DiscoverRequest, result *mcp.DiscoverResult) {
			result.Instructions = opts.Instructions()
		})
	}
	if opts.OnEnd != nil {
		hooks.AddOnUnregisterSession(func(_ context.Context, session server.ClientSession) {
			opts.OnEnd(session.SessionID())
		})
	}
	hooks.AddOnError(func(ctx context.Context, _ any, _ mcp.MCPMethod, _ any, err error) { judge(ctx, err) })
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
	s := server.NewMCPServer("biocage", opts.Version,
		server.WithTitle("BioCage"),
		server.WithDescription("An isolated, persistent Python interpreter"),
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, false),
		server.WithMethodCacheHints(mcp.MethodToolsList, listTTL, mcp.CacheScopePublic),
		server.WithMethodCacheHints(mcp.MethodResourcesList, 0, mcp.CacheScopePrivate),
		server.WithMethodCacheHints(mcp.MethodResourcesTemplatesList, listTTL, mcp.CacheScopePublic),
		server.WithHooks(hooks),
	)
	s.AddTools(opts.Tools...)
	for _, template := range opts.Templates {
		s.AddResourceTemplate(template.Template, template.Handler)
	}
	return s
}
