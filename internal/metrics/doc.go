// Package metrics counts what a server does, for Prometheus. A [Metrics] is
// an observer of sessions and of tools, and serves what it counted; it starts
// nothing and needs no end. No label has a text of a client or of the code that
// runs: every value is one of a few words of the server's own.
package metrics
