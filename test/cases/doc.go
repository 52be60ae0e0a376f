// Package cases runs a corpus of hard cases against the real binary: each line
// of testdata/cases.jsonl is a public report about some sandbox, notebook or
// MCP server, written as calls and what must hold for their answers.
// testdata/kinds.jsonl has neighbours of them, so that whole kinds are covered;
// testdata/abilities.jsonl has the same form: what docs/FEATURES.md promises and
// no report is about.
//
// A case gets fresh server processes, which it drives over standard input and
// output as hosts do. Sub-tests are named after the case and the engine:
//
//	go test ./test/cases -run 'TestCases/state' -engine gvisor
//
// Flags: -engine names the engines by comma (every one that works here by
// default), -environment the Python environment, -corpus other files in the same
// format, -servers how many cases run at one time. BIOCAGE_TEST_BINARY names the
// binary; without it the tests build one. A case that needs packages which the
// environment lacks gets one that is built from testdata/extras.toml.
//
// A case that needs what the machine lacks is skipped with the reason, or fails
// where CI=true; it is never counted as passed. One that means nothing on an
// engine is told ("does not apply") and has no sub-test there. A case of the level `must` fails the test; one of the
// level `should` does so too, unless known.txt lists it with the reason. After
// every case nothing of its servers may be left on the machine, and whatever
// the case is about, each answer must keep to the rules that hold for all.
package cases
