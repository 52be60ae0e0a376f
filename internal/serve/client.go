package serve

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A client is a peer as mcp-go sees it: with a channel for notifications, and
// a way to ask it something. Where every request has its own stream, each has
// its own client of the same peer, so that nothing gets onto another's stream.
type client struct {
	*peer
	notifications chan<- mcp.JSONRPCNotification
	send          func(ctx context.Context, line []byte) error // nil: the client cannot be asked
}

var (
	_ server.SessionWithClientInfo      = (*client)(nil)
	_ server.SessionWithProtocolVersion = (*client)(nil)
	_ server.SessionWithElicitation     = (*client)(nil)
	_ server.SessionWithRoots           = (*client)(nil)
)

// NotificationChannel leads to the client's stream.
func (c *client) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notifications }

// RequestElicitation asks the person at the client.
func (c *client) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	if c.GetClientCapabilities().Elicitation == nil {
		return nil, server.ErrElicitationNotSupported
	}
	result := &mcp.ElicitationResult{}
	if err := c.ask(ctx, mcp.MethodElicitationCreate, request.Params, result); err != nil {
		return nil, err
	}
	return result, nil
}

// ListRoots asks for the folders that the client announces.
func (c *client) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	if c.GetClientCapabilities().Roots == nil {
		return nil, server.ErrRootsNotSupported
	}
	result := &mcp.ListRootsResult{}
	if err := c.ask(ctx, mcp.MethodListRoots, nil, result); err != nil {
		return nil, err
	}
	return result, nil
}
