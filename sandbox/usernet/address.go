package usernet

import "net/netip"

// The addresses of the link. They are from the ranges for addresses that mean
// something on one link only (RFC 7335, RFC 4193), so that they hide nothing
// that a sandbox may want to reach.
var (
	link4 = netip.MustParsePrefix("192.0.0.0/29")        //nolint:gochecknoglobals // constant
	link6 = netip.MustParsePrefix("fd0b:10ca:9e00::/64") //nolint:gochecknoglobals // constant
)

// MaxResolvers is how many of the host's resolvers a sandbox can ask, which is
// how many a resolv.conf may name.
const MaxResolvers = 3

// MTU is the largest packet of the link. A socket pair carries large ones at
// the price of small ones.
const MTU = 32 << 10

// An End is one side of the link in both families.
type End struct{ V4, V6 netip.Prefix }

// Gateway is where a sandbox sends everything, and its first resolver.
func Gateway() End { return end(1) }

// Sandbox is a sandbox's own address.
func Sandbox() End { return end(2) }

func end(n int) End {
	v4, v6 := link4.Addr().As4(), link6.Addr().As16()
	v4[3], v6[15] = byte(n), byte(n)
	return End{
		V4: netip.PrefixFrom(netip.AddrFrom4(v4), link4.Bits()),
		V6: netip.PrefixFrom(netip.AddrFrom16(v6), link6.Bits()),
	}
}

// ResolverAddr is the address under which a sandbox asks the host's resolver n,
// from 0 to MaxResolvers-1.
func ResolverAddr(n int) netip.Addr {
	if n == 0 {
		return Gateway().V4.Addr()
	}
	return end(n + 2).V4.Addr()
}

// resolverIndex is the inverse of ResolverAddr, or -1.
func resolverIndex(addr netip.Addr) int {
	for n := range MaxResolvers {
		if ResolverAddr(n) == addr {
			return n
		}
	}
	return -1
}
