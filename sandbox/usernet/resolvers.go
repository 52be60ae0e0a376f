package usernet

import (
	"net/netip"
	"strings"
)

const dnsPort = 53

// ParseResolvers reads the name servers of a resolv.conf. Without one the
// resolver is on the host itself, as the C library has it.
func ParseResolvers(text string) []netip.AddrPort {
	var all []netip.AddrPort
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" || len(all) == MaxResolvers {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			all = append(all, netip.AddrPortFrom(addr, dnsPort))
		}
	}
	if len(all) == 0 {
		all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), dnsPort))
	}
	return all
}

// ResolvConf is the file for a sandbox of a host with n resolvers.
func ResolvConf(n int) string {
	var text strings.Builder
	for i := range min(n, MaxResolvers) {
		text.WriteString("nameserver " + ResolverAddr(i).String() + "\n")
	}
	return text.String()
}
