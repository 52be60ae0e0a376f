package serve

import (
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A client is the session that mcp-go knows the peer of a pipe by.
type client struct {
	notifications chan<- mcp.JSONRPCNotification
	initialized   atomic.Bool
}

var _ server.ClientSession = (*client)(nil)

func newClient(notifications chan<- mcp.JSONRPCNotification) *client {
	return &client{notifications: notifications}
}

// SessionID is the same for every process: a pipe has one client.
func (c *client) SessionID() string { return "stdio" }

// Principal is who was authenticated: nobody on a pipe, which belongs to the
// process that holds its other end.
func (c *client) Principal() string { return "" }

// Initialize marks the client as ready for notifications.
func (c *client) Initialize() { c.initialized.Store(true) }

// Initialized tells whether the client is ready for notifications.
func (c *client) Initialized() bool { return c.initialized.Load() }

// NotificationChannel leads to the writer.
func (c *client) NotificationChannel() chan<- mcp.JSONRPCNotification { return c.notifications }
