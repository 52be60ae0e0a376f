// Package remains tells what a server left behind on this machine after it
// ended: processes, containers, mounts, control groups, directories.
//
// The demo and the tests use it; the server never does, so that what cleans
// up and what checks the cleaning share no code. It looks from outside, at
// /proc and by the docker command, and changes nothing.
//
// A [Watch] is for one server and is not safe for concurrent use. Look must be
// called while the server lives, because only then are its descendants known
// as such.
package remains
