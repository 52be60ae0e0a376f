// Package interop tests the real binary with clients that others wrote, as
// hosts use it: the official Python SDK in its versions 1 and 2, the Inspector,
// and mcp-go's client; on every engine; and the ends of the server, gentle and
// violent, after which nothing may be left.
//
// setup.sh installs the clients below build/interop. BIOCAGE_TEST_BINARY names
// the binary; without it the tests build one. What is missing skips a test with
// the reason; where CI=true it fails instead.
//
// The Python programs below python/ only collect facts; the tests judge them.
package interop
