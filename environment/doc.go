// Package environment builds and finds the Python root file systems that
// sandboxes start from.
//
// An environment has a name, a directory tree and, where a Docker daemon is
// used, an image with the same content. A [Store] owns a data directory with
// all environments of one machine and the caches that builds share. A build
// takes a base (an image of a registry, an image of the local Docker daemon,
// or a debootstrap of Debian), installs wheels whose hashes a lock file fixes,
// and makes the tree fit for hostile tenants: no device nodes, no setuid bits,
// readable for every user id, nothing that must be written at run time.
//
// Packages' own code never runs with privileges: wheels are unpacked by uv,
// compiled without their start-up hooks, and imported only as an unprivileged
// user in namespaces of its own without a network.
//
// The Docker daemon is reached through [DaemonImages], which package main
// implements; this package imports no Docker client, reads no environment
// variables and starts no goroutines that outlive a call.
//
// Layout of the data directory:
//
//	environments/NAME/ID/rootfs          the tree
//	environments/NAME/ID/environment.json, requirements.lock, pyproject.toml
//	environments/NAME/ID/in-use.lock     shared lock of every user of the tree
//	environments/NAME/current            symlink to the ID in force
//	cache/                               downloads and bases; safe to delete
//	tmp/                                 builds in progress; swept by the next build
package environment
