// Package conformance runs the official conformance suite of the Model Context
// Protocol against BioCage's HTTP front end: the wiring of internal/serve with
// the tools, resources and prompts that the suite asks for. Their names,
// arguments and answers are those of the suite's scenario descriptions
// (npm @modelcontextprotocol/conformance, `conformance list --server`).
//
// What is known to fail is in expected-failures.yml, each line with its reason.
package conformance
