//go:build linux

package gvisor

// precompiled is empty: genseccomp must run on this architecture to make it.
var precompiled []byte
