package docker

import _ "embed"

// seccompProfile is what system calls a sandbox may make on runc, for amd64
// and arm64, native calls only (int 0x80 and x32 are killed).
//
// It is the list of the Moby project's default profile (v0.3.0, Apache-2.0)
// without ptrace and its kin, splice, System V and POSIX message IPC, memory
// locking, scheduling classes, nested filters and the like, and with these
// rules: sockets only of the families unix, inet and inet6 (AF_ALG, vsock and
// netlink are refused); no new namespaces; clone3 and openat2 answer ENOSYS,
// because their arguments are out of a filter's sight; device nodes cannot be
// made; limits, affinity and priority only of the caller itself (a limit set
// on PID 1 would kill the sandbox); no file gets a set-user-id or set-group-id
// bit, which in a read-write exposure would be one of the host.
//
//go:embed seccomp.json
var seccompProfile string
