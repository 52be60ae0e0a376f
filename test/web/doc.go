// Package web attacks the real binary from outside, over HTTP and over stdio,
// as pages in a browser, other clients and careless or hostile programs would,
// and checks each time that a good client is still served.
//
// Each test names the kind of attack in its comment. BIOCAGE_TEST_BINARY names
// the binary; without it the tests build one. With -heavy the numbers are those
// of real floods. Load goes to 127.0.0.1 alone.
package web
