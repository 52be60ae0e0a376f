// Package pyagent is the host's end of the agent protocol and carries the
// source of the agent itself.
//
// PROTOCOL.md beside this file is the specification. A [Conn] owns one byte
// stream to a supervisor and the goroutine that reads it; whoever made the
// stream keeps the sandbox behind it. Everything read from the stream is
// hostile: frames are bounded, a frame that breaks the protocol ends the
// connection, and no text from the sandbox is ever interpreted. The package
// knows nothing of engines, sessions or MCP.
package pyagent
