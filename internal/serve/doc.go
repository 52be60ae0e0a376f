// Package serve holds the front ends around mcp-go's MCPServer.
//
// [NewServer] makes the server with its name, instructions and static lists;
// [Stdio] serves it over a pair of pipes. The stdio transport is our own,
// above HandleMessage, because the library's one reads lines without bound,
// delivers progress after the result it belongs to, runs calls that were
// cancelled while they waited, answers cancelled calls, and dies of SIGPIPE.
//
// A [Stdio] owns its goroutines and every call in flight: Serve cancels them
// at the end and waits for them, within a bound. This package knows nothing of
// sandboxes; tools are handed in.
package serve
