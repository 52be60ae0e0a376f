package serve

import (
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxName bounds what is kept of each text with which a client presents itself.
const maxName = 256

// A peer is whoever is at the other end: of a pipe, of a stream of SSE, of a
// protocol session, or of a single request where there are no sessions.
type peer struct {
	id        string // "" for a request without a session
	principal string
	asks      asks

	initialized atomic.Bool

	mu           sync.Mutex
	info         mcp.Implementation     // guarded by mu
	capabilities mcp.ClientCapabilities // guarded by mu
	version      string                 // guarded by mu
}

// SessionID names the connection, and is "" for a request without a session.
func (p *peer) SessionID() string { return p.id }

// Principal is who was authenticated, and "" on a pipe, which belongs to the
// process that holds its other end.
func (p *peer) Principal() string { return p.principal }

// Initialize marks the peer as ready for notifications.
func (p *peer) Initialize() { p.initialized.Store(true) }

// Initialized tells whether the peer is ready for notifications.
func (p *peer) Initialized() bool { return p.initialized.Load() }

// SetClientInfo keeps how the client presents itself, within bounds: it stays
// in memory as long as the session.
func (p *peer) SetClientInfo(info mcp.Implementation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = mcp.Implementation{Name: cut(info.Name), Version: cut(info.Version), Title: cut(info.Title)}
}

// GetClientInfo gives how the client presented itself.
func (p *peer) GetClientInfo() mcp.Implementation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

// SetClientCapabilities keeps what the client can do, but for what is of
// unbounded size and not used here.
func (p *peer) SetClientCapabilities(capabilities mcp.ClientCapabilities) {
	p.mu.Lock()
	defer p.mu.Unlock()
	capabilities.Experimental, capabilities.Extensions = nil, nil
	p.capabilities = capabilities
}

// GetClientCapabilities gives what the client can do.
func (p *peer) GetClientCapabilities() mcp.ClientCapabilities {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.capabilities
}

// SetProtocolVersion keeps the version that initialize agreed on.
func (p *peer) SetProtocolVersion(version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = version
}

// ProtocolVersion is the version that initialize agreed on.
func (p *peer) ProtocolVersion() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

func cut(text string) string {
	if len(text) > maxName {
		return text[:maxName]
	}
	return text
}
