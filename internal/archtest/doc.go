// Package archtest holds the project's rules as tests: who may import whom,
// who may start goroutines, where the process's environment may be read, how
// long a file may be, and that documents and examples are not stale. It has no
// code beside its tests.
package archtest
