// Package sandbox says what a sandbox is, whatever isolates it.
//
// An [Engine] creates sandboxes; a [Sandbox] is one isolated set of processes
// whose first process is the agent's supervisor (package pyagent). The caller
// owns a sandbox from the moment Create returns until Close returned; the
// engine owns everything that Create needed along the way. This package knows
// nothing of Python, of MCP or of sessions, and imports only the standard
// library; each engine lives in a package of its own below this one.
package sandbox
