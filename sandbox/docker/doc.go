// Package docker is the engine that isolates by containers of a Docker daemon
// (Docker, or another daemon that speaks its API).
//
// An [Engine] owns one API client, one stream of the daemon's events and a
// private directory for sockets; a sandbox owns its container, the attached
// standard input that is its lease, and the stream of the agent. What a
// container may do is decided in one function, settings, and is verified
// after the start: a container that differs from what was promised is never
// handed out.
//
// Nothing here unpacks an archive, runs a command on the host or copies files
// in or out of a container; files travel through the agent's protocol.
package docker
