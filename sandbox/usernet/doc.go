// Package usernet gives one sandbox a network without giving it the host's:
// the sandbox's packets end in a network stack of this process (gVisor's), and
// each connection goes on as an ordinary socket that this process opens, if the
// policy allows the address. So nothing of the host's network is changed, no
// right of root is needed, and nothing is left when the process ends.
//
// The engine runs it as a process of its own for each sandbox ([Serve]), because
// it parses what hostile code sends: a fault there costs that sandbox's network
// and nothing else, and what it uses counts as the sandbox's.
//
// The link is one end of a socket pair whose packets are IP packets. Whoever
// holds the other end has the address [Sandbox] and sends everything to
// [Gateway]. Everything is bounded: flows, buffers, descriptors, idle time.
//
// The package knows nothing of engines and containers.
package usernet
