// Package dockerproxy stands between a client and a Docker daemon, for tests:
// a [Proxy] passes everything on, hijacked streams too, until it is told a
// [Fault], and can cut every connection to the daemon. Whoever starts one must
// Close it.
package dockerproxy
