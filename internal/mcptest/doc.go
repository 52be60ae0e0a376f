// Package mcptest is a small MCP client over stdio for tests. It starts the
// real binary, speaks plain JSON-RPC and hides nothing: an answer comes with
// the bytes it had on the wire, and everything that the server wrote to its
// standard error can be read.
//
// It shares no code with the server. A [Server] is safe for concurrent use;
// whoever starts one must Close or Kill it.
package mcptest
