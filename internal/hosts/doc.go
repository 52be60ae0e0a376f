// Package hosts knows the programs that start MCP servers: where each keeps its
// configuration on each operating system, what an entry looks like there, and
// how to add, change or remove one without disturbing the rest of the file.
//
// Edits are functions from bytes to bytes. JSON is edited in its syntax tree,
// with comments, trailing commas and white space; TOML by the lines of the one
// table. After each edit the new text is read again and compared with what was
// meant; a file that cannot be edited so is refused and left as it is. Only
// Edit touches the file system.
package hosts
