// Package hostmount attaches a host file or directory to a running sandbox's
// mount namespace, without copying.
//
// Nothing is ever mounted in the host's own namespace: the tree is cloned
// detached, restricted, and moved into the sandbox's namespace, where it
// lives and ends with the sandbox. A killed server leaves no mounts. The
// package owns one operating system thread of the process, which enters the
// sandboxes' namespaces, comes home after each visit, and never ends: gVisor
// sandboxes are children that die with the thread that started them.
//
// The mount maps user ids: what belongs to the source's owner belongs to the
// sandbox's user inside, and what the sandbox creates belongs to the source's
// owner on the host. That lets the sandbox act as the owner beneath the
// source, including set-user-id bits unless the sandbox's system call filter
// refuses them; the mount itself never honours them (nosuid).
package hostmount
