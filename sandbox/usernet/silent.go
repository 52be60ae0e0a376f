//go:build linux

package usernet

import (
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// quiet drops the sandbox's ICMP packets. The stack would answer an echo
// request to any address, and so say that whatever is asked for is there.
type quiet struct{ nested.Endpoint }

func silent(child stack.LinkEndpoint) *quiet {
	q := &quiet{}
	q.Init(child, q)
	return q
}

// DeliverNetworkPacket implements stack.NetworkDispatcher.
func (q *quiet) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, packet *stack.PacketBuffer) {
	if !isICMP(protocol, packet) {
		q.Endpoint.DeliverNetworkPacket(protocol, packet)
	}
}

func isICMP(protocol tcpip.NetworkProtocolNumber, packet *stack.PacketBuffer) bool {
	switch protocol {
	case header.IPv4ProtocolNumber:
		raw, ok := packet.Data().PullUp(header.IPv4MinimumSize)
		return ok && header.IPv4(raw).Protocol() == uint8(header.ICMPv4ProtocolNumber)
	case header.IPv6ProtocolNumber:
		raw, ok := packet.Data().PullUp(header.IPv6MinimumSize)
		return ok && header.IPv6(raw).NextHeader() == uint8(header.ICMPv6ProtocolNumber)
	}
	return false
}
