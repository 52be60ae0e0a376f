// Package session keeps one live interpreter per session: it finds or starts
// it, runs one cell at a time, keeps deadlines, moves files in and out, and
// ends it when it has been idle or is told to.
//
// The [Manager] owns every session; a session owns its sandbox and the
// connection to its agent from creation to end. A request's context never
// bounds a session's life. This package knows sandboxes and the agent's
// protocol, and nothing of MCP.
package session
