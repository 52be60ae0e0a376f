//go:build linux

package usernet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// Bounds of one sandbox's network.
const (
	maxTCP      = 256 // connections, those being made included
	maxUDP      = 256
	dialLimit   = 15 * time.Second
	bufferBytes = 256 << 10 // the most that one direction of a connection holds

	idleTCP = time.Hour
	idleUDP = time.Minute
	idleDNS = 5 * time.Second
)

const nic tcpip.NICID = 1

// Options configure a Net.
type Options struct {
	Allow     Policy                              // nil: Outside
	Resolvers func() []netip.AddrPort             // the host's, asked for each query; nil: none
	idle      func(port uint16) idleness          // tests shorten it
	divert    func(netip.AddrPort) netip.AddrPort // tests lead flows to their servers
}

// idleness is how long flows of each kind may carry nothing.
type idleness struct{ tcp, udp time.Duration }

func usualIdleness(port uint16) idleness {
	if port == dnsPort {
		return idleness{tcp: idleUDP, udp: idleDNS}
	}
	return idleness{tcp: idleTCP, udp: idleUDP}
}

// A Net is the network of one sandbox. It owns its stack and all its flows;
// Close ends them and waits.
type Net struct {
	opts  Options
	link  *os.File // held here, because the stack knows its number only
	stack *stack.Stack
	tcp   chan struct{} // a slot for each connection
	udp   chan struct{}

	mu     sync.Mutex
	closed bool           // guarded by mu
	ends   map[int]func() // guarded by mu; what ends each flow, or its beginning
	next   int            // guarded by mu
	flows  sync.WaitGroup // Add only with mu held
}

// New serves the packets of link, a packet socket, until Close. The link stays
// the caller's, to be closed after Close.
func New(link *os.File, opts Options) (*Net, error) {
	if opts.Allow == nil {
		opts.Allow = Outside
	}
	if opts.Resolvers == nil {
		opts.Resolvers = func() []netip.AddrPort { return nil }
	}
	if opts.idle == nil {
		opts.idle = usualIdleness
	}
	n := &Net{
		opts: opts, link: link, ends: map[int]func(){},
		tcp: make(chan struct{}, maxTCP), udp: make(chan struct{}, maxUDP),
	}
	n.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	if err := n.setUp(link); err != nil {
		n.stack.Destroy()
		return nil, err
	}
	return n, nil
}

func (n *Net) setUp(link *os.File) error {
	if err := tune(n.stack); err != nil {
		return err
	}
	endpoint, err := fdbased.New(&fdbased.Options{
		FDs: []int{int(link.Fd())}, MTU: MTU, PacketDispatchMode: fdbased.RecvMMsg,
		// Nothing is lost or changed on a socket pair.
		TXChecksumOffload: true, RXChecksumOffload: true,
		ProcessorsPerChannel: 1,
	})
	if err != nil {
		return fmt.Errorf("serve the sandbox's link: %w", err)
	}
	n.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(n.stack, bufferBytes, maxTCP, n.acceptTCP).HandlePacket)
	n.stack.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(n.stack, n.acceptUDP).HandlePacket)
	if err := n.stack.CreateNIC(nic, silent(endpoint)); err != nil {
		return fmt.Errorf("serve the sandbox's link: %s", err)
	}
	// It answers for every address there is.
	if err := n.stack.SetPromiscuousMode(nic, true); err != nil {
		return fmt.Errorf("serve the sandbox's link: %s", err)
	}
	if err := n.stack.SetSpoofing(nic, true); err != nil {
		return fmt.Errorf("serve the sandbox's link: %s", err)
	}
	n.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
	return nil
}

// tune bounds what the stack holds.
func tune(s *stack.Stack) error {
	sack := tcpip.TCPSACKEnabled(true)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: bufferBytes, Max: bufferBytes}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: bufferBytes, Max: bufferBytes}
	wait, linger := tcpip.TCPTimeWaitTimeoutOption(time.Second), tcpip.TCPLingerTimeoutOption(10*time.Second)
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &receive, &send, &wait, &linger} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return fmt.Errorf("set up the sandbox's network: %s", err)
		}
	}
	return nil
}

// Close ends every flow and the stack, and waits for all of it.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	for _, end := range n.ends {
		end()
	}
	n.mu.Unlock()
	n.flows.Wait()
	n.stack.Destroy()
}

// begin takes a slot for a flow and registers what ends it; it is false when
// there are too many or the Net is closed. done gives everything back.
func (n *Net) begin(slots chan struct{}, end func()) (done func(), ok bool) {
	select {
	case slots <- struct{}{}:
	default:
		return nil, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		<-slots
		return nil, false
	}
	id := n.next
	n.next++
	n.ends[id] = end
	n.flows.Add(1)
	return func() {
		n.mu.Lock()
		delete(n.ends, id)
		n.mu.Unlock()
		<-slots
		n.flows.Done()
	}, true
}

// dial opens the host's socket for a flow to target, if it is allowed.
func (n *Net) dial(ctx context.Context, network string, target netip.AddrPort) (net.Conn, error) {
	real, err := n.destination(target)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialLimit}
	return dialer.DialContext(ctx, network, real.String())
}

// destination is where a flow to target really goes.
func (n *Net) destination(target netip.AddrPort) (netip.AddrPort, error) {
	target = netip.AddrPortFrom(target.Addr().Unmap(), target.Port())
	if i := resolverIndex(target.Addr()); i >= 0 && target.Port() == dnsPort {
		if all := n.opts.Resolvers(); i < len(all) {
			return all[i], nil
		}
	}
	if n.opts.divert != nil {
		target = n.opts.divert(target)
	}
	return target, n.opts.Allow(target.Addr())
}

func addrPort(addr tcpip.Address, port uint16) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(addr.AsSlice()) // of 4 or 16 bytes, always
	return netip.AddrPortFrom(ip, port)
}
