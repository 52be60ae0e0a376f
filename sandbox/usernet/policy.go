//go:build linux

package usernet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Policy tells why a sandbox may not reach an address, or nil. It is asked
// for the address of each new flow, just before the socket is opened: names
// have become addresses by then, so no name can trick it.
type Policy func(netip.Addr) error

// Outside allows what lies beyond this host: not the host itself by any of its
// addresses, not its links (link-local, multicast, broadcast), not where clouds
// keep a machine's credentials. Private networks are beyond the host.
func Outside(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if why := special(addr); why != "" {
		return fmt.Errorf("%s is %s: %w", addr, why, ErrRefused)
	}
	return routed(addr)
}

// special names the class of an address that is never outside, or is "".
func special(addr netip.Addr) string {
	switch {
	case !addr.IsValid() || addr.IsUnspecified():
		return "no address"
	case addr.IsLoopback():
		return "a loopback address"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.IsMulticast():
		return "a multicast address"
	}
	for _, class := range classes() {
		for _, prefix := range class.prefixes {
			if netip.MustParsePrefix(prefix).Contains(addr) {
				return class.name
			}
		}
	}
	// What a translator would make of it counts as well.
	if inner, ok := translated(addr); ok {
		return special(inner)
	}
	return ""
}

type addressClass struct {
	name     string
	prefixes []string
}

func classes() []addressClass {
	return []addressClass{
		{"of the sandbox's own link", []string{link4.String(), link6.String()}},
		{"an address of this network", []string{"0.0.0.0/8"}},
		{"a reserved address", []string{"240.0.0.0/4"}},
		{"a cloud's metadata service", []string{
			"168.63.129.16/32",   // Azure
			"100.100.100.200/32", // Alibaba
			"192.0.0.192/32",     // Oracle, formerly
			"fd00:ec2::254/128",  // AWS
			"fd20:ce::254/128",   // Google
		}},
		// These carry an IPv4 address past whoever looks at the outer one.
		{"an address of a tunnel", []string{"::/96", "2001::/32", "2002::/16", "64:ff9b:1::/48"}},
	}
}

// translated is the IPv4 address within one of NAT64's well-known prefix.
func translated(addr netip.Addr) (netip.Addr, bool) {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(addr) {
		return netip.Addr{}, false
	}
	raw := addr.As16()
	return netip.AddrFrom4([4]byte(raw[12:])), true
}

// routed asks the kernel where it would send: an address is this host's own
// when the kernel says so, however it got it.
func routed(addr netip.Addr) error {
	if inner, ok := translated(addr); ok {
		if err := routed(inner); errors.Is(err, ErrRefused) {
			return err
		}
	}
	routes, err := netlink.RouteGet(net.IP(addr.AsSlice()))
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES), err == nil && len(routes) == 0:
		return fmt.Errorf("%s: %w", addr, ErrUnreachable)
	case err != nil:
		return fmt.Errorf("ask for the route to %s: %w: %w", addr, ErrRefused, err)
	}
	for _, route := range routes {
		if route.Type != unix.RTN_UNICAST {
			return fmt.Errorf("%s is this host's own address or a broadcast address: %w", addr, ErrRefused)
		}
	}
	return nil
}

// HasIPv6 tells whether this host reaches the internet by IPv6, as far as its
// routes tell.
func HasIPv6() bool {
	return routed(netip.MustParseAddr("2000::1")) == nil
}
