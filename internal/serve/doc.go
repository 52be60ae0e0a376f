// Package serve holds the front ends around mcp-go's MCPServer.
//
// [NewServer] makes the server with its name, instructions and static lists.
// [Stdio] serves it over a pair of pipes, [HTTP] over streamable HTTP, in the
// protocol's era of sessions and in the one without, and over the older SSE.
// The transports are our own, above HandleMessage: the library's deliver
// progress late or not at all, let strangers cancel calls, take any session id,
// and read messages without bound.
//
// They share one machinery. A message is read once (message.go); a call is
// admitted by its client's calls (calls.go), takes its turn among all (turns.go)
// and is handled (respond.go); its progress and questions (asks.go) go out
// before its answer, through the one writer of a connection (conn.go, writer.go)
// or the exchange of a POST (exchange.go). A [Stdio] and an [HTTP] own their
// goroutines and every call in flight: Serve cancels them at the end and waits
// for them, within a bound.
//
// Who may come in is decided in front: [HTTP] is handed a guard. This package
// knows nothing of sandboxes; tools are handed in.
package serve
