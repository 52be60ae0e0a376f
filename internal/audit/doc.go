// Package audit keeps the audit log: one line of JSON for every call of a
// tool, appended to a file. A [Log] is a tools.Observer; its owner closes it
// when no call can begin any more.
package audit
