package guard

import (
	"fmt"
	"net"
	"net/netip"
)

// CheckListen refuses to listen where other machines reach the server while
// nobody has chosen who may call. A token that was made at the start does not
// count: it is for the person in front of this machine.
func CheckListen(listen string, isConfigured bool) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || isLoopbackHost(host) || isConfigured {
		return nil //nolint:nilerr // what is no address at all is another fault
	}
	return fmt.Errorf("%s can be reached from other machines; set server.tokens or server.oauth, or listen on 127.0.0.1", listen)
}

// isLoopbackHost tells whether only this machine reaches a listener there.
func isLoopbackHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// isWildcard tells whether the host stands for all addresses of the machine.
func isWildcard(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "" || err == nil && address.Unmap().IsUnspecified()
}

// where is the host and port that is listened on; the port is the real one
// when the configured one is 0.
func (o Options) where() (host, port string) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return "", ""
	}
	if o.Addr != nil {
		if _, real, err := net.SplitHostPort(o.Addr.String()); err == nil {
			port = real
		}
	}
	return host, port
}
