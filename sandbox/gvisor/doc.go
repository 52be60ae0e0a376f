// Package gvisor is the engine that needs nothing but the program itself: it
// carries gVisor's application kernel and starts every sandbox as children of
// this process, without a daemon, as root or as an ordinary user.
//
// gVisor re-executes the running program (/proc/self/exe) for each of its
// parts, so main must call [Dispatch] before anything else. The rest drives
// gVisor's container library inside this process; none of its types leaves
// this package, because upstream promises no stable API: the version in
// go.mod is pinned and everything that leans on it is here.
//
// Who owns what:
//
//   - An [Engine] owns one directory below Options.RunDir (its instance), the
//     control groups of the same name, and one thread that attaches host files.
//     A file in the instance names its owner by pid, start time and boot, so
//     that Reap can tell what a dead process left.
//   - A sandbox owns two host processes (the application kernel, called
//     sentry, and the file server, called gofer), its directory in the
//     instance, its control groups, and two goroutines that end when it ends.
//   - The kernel ends every sentry and gofer when the thread that started it
//     ends. Therefore no thread of this process may end while sandboxes live:
//     code that locks a goroutine to its thread must unlock it, or never end.
//
// The package knows nothing of Python, of the agent's protocol, of sessions.
package gvisor

//go:generate go run ./genseccomp -o seccomp_amd64.gob
