// Package sandboxtest is the conformance suite that every engine passes, and
// [Process], an engine for tests that isolates nothing.
//
// The suite looks at a sandbox from both sides: from inside, through a probe
// that it puts in place of the agent, and from outside, through /proc and the
// host's files. An engine's test package calls [HostProcess] first thing in
// TestMain, because the suite starts the test binary again as a host that it
// can kill, and [Run] in a test.
//
// The package is for tests only; nothing of the product imports it.
package sandboxtest
