// Package tools is what a model sees: the MCP tools, one file each, and the
// resource template behind the links in their answers.
//
// [All] makes the tools over [Sessions], which package session implements. A
// tool's input struct is its schema, its validation and its decoding at once
// (define.go, schema.go, decode.go). Text that came out of a sandbox passes
// [Sanitize] before anything else sees it. Answers are bounded as a whole;
// result.go and answer.go say how one reads. refuse.go is the only place where
// errors become text. This package knows MCP and sessions, and nothing of
// engines or transports.
package tools
