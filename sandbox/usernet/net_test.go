//go:build linux

package usernet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// Addresses that the tests' servers on loopback have for a guest.
const outside4, outside6 = "198.51.100.1", "2001:db8::1"

// open leads a guest to the tests' servers.
func open() Options {
	return Options{
		Allow: func(netip.Addr) error { return nil },
		divert: func(to netip.AddrPort) netip.AddrPort {
			if to.Addr().Is4() {
				return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
			}
			return netip.AddrPortFrom(netip.IPv6Loopback(), to.Port())
		},
	}
}

// outside is a server's address as a guest knows it.
func outside(t *testing.T, server net.Addr) string {
	t.Helper()
	at, err := netip.ParseAddrPort(server.String())
	if err != nil {
		t.Fatal(err)
	}
	host := outside4
	if at.Addr().Is6() {
		host = outside6
	}
	return net.JoinHostPort(host, fmt.Sprint(at.Port()))
}

// A guest is the other end of the link: a stack such as a sandbox has.
type guest struct {
	stack *stack.Stack
	net   *Net
}

func newGuest(t *testing.T, opts Options) guest {
	t.Helper()
	mine, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(theirs, opts)
	if err != nil {
		t.Fatal(err)
	}
	g := guest{net: n, stack: stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})}
	endpoint, err := fdbased.New(&fdbased.Options{
		FDs: []int{int(mine.Fd())}, MTU: MTU, PacketDispatchMode: fdbased.RecvMMsg, TXChecksumOffload: true, RXChecksumOffload: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.stack.CreateNIC(nic, endpoint); err != nil {
		t.Fatal(err)
	}
	for number, prefix := range map[tcpip.NetworkProtocolNumber]netip.Prefix{ipv4.ProtocolNumber: Sandbox().V4, ipv6.ProtocolNumber: Sandbox().V6} {
		address := tcpip.ProtocolAddress{Protocol: number, AddressWithPrefix: tcpip.AddressWithPrefix{
			Address: tcpip.AddrFromSlice(prefix.Addr().AsSlice()), PrefixLen: prefix.Bits(),
		}}
		if err := g.stack.AddProtocolAddress(nic, address, stack.AddressProperties{}); err != nil {
			t.Fatal(err)
		}
	}
	g.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
	t.Cleanup(func() {
		n.Close()
		g.stack.Destroy()
		_, _ = mine.Close(), theirs.Close()
	})
	return g
}

func (g guest) full(to string) (tcpip.FullAddress, tcpip.NetworkProtocolNumber) {
	at := netip.MustParseAddrPort(to)
	number := ipv4.ProtocolNumber
	if at.Addr().Is6() {
		number = ipv6.ProtocolNumber
	}
	return tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(at.Addr().AsSlice()), Port: at.Port()}, number
}

func (g guest) dial(t *testing.T, to string) (*gonet.TCPConn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	at, number := g.full(to)
	return gonet.DialContextTCP(ctx, g.stack, at, number)
}

// serve runs a TCP server on loopback, which handles each connection.
func serve(t *testing.T, network, at string, handle func(*net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				handle(conn.(*net.TCPConn))
			})
		}
	})
	return outside(t, listener.Addr())
}

// upper answers, when it has heard everything, with it in capitals.
func upper(conn *net.TCPConn) {
	said, err := io.ReadAll(conn)
	if err == nil {
		_, _ = conn.Write(bytes.ToUpper(said)) // who has gone hears nothing
	}
}

func TestTCP(t *testing.T) {
	for network, at := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			to := serve(t, network, at, upper)
			g := newGuest(t, open())
			conn, err := g.dial(t, to)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := talk(conn, "half-closed"); err != nil || got != "HALF-CLOSED" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// talk says something, ends its own side, and hears the answer.
func talk(conn *gonet.TCPConn, text string) (string, error) {
	defer func() { _ = conn.Close() }()
	_, err := io.WriteString(conn, text)
	if err := errors.Join(err, conn.CloseWrite()); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func TestRefusal(t *testing.T) {
	reached := make(chan struct{}, 8)
	to := serve(t, "tcp4", "127.0.0.1:0", func(*net.TCPConn) { reached <- struct{}{} })
	g := newGuest(t, Options{})
	_, port, err := net.SplitHostPort(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range append(ownAddresses(t), "169.254.169.254", "fd00:ec2::254") {
		start := time.Now()
		_, err := g.dial(t, net.JoinHostPort(host, port))
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v after %v", host, err, time.Since(start))
		}
	}
	select {
	case <-reached:
		t.Error("the host's loopback was reached")
	default:
	}
}

func ownAddresses(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() { // a stack keeps loopback to itself
			own = append(own, ip.IP.String())
		}
	}
	return own
}

func TestLargeTransfers(t *testing.T) {
	const size = 48 << 20
	random := rand.NewChaCha8([32]byte{1})
	data := make([]byte, size)
	if _, err := random.Read(data); err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(data)
	to := serve(t, "tcp4", "127.0.0.1:0", func(conn *net.TCPConn) {
		hash := sha256.New()
		if _, err := io.Copy(hash, conn); err != nil {
			return
		}
		_, _ = conn.Write(append(hash.Sum(nil), data...)) // who has gone hears nothing
	})
	g := newGuest(t, open())
	conn, err := g.dial(t, to)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = io.Copy(conn, bytes.NewReader(data))
	if err := errors.Join(err, conn.CloseWrite()); err != nil {
		t.Fatal(err)
	}
	var heard [sha256.Size]byte
	if _, err := io.ReadFull(conn, heard[:]); err != nil || heard != want {
		t.Fatalf("the host got %x, %v; want %x", heard, err, want)
	}
	up := time.Since(start)
	start = time.Now()
	hash := sha256.New()
	if n, err := io.Copy(hash, conn); err != nil || n != size || [sha256.Size]byte(hash.Sum(nil)) != want {
		t.Errorf("the guest got %d bytes, %v, or others than were sent", n, err)
	}
	down := time.Since(start)
	t.Logf("up %.0f MB/s, down %.0f MB/s", size/1e6/up.Seconds(), size/1e6/down.Seconds())
	_ = conn.Close()
}

func TestManyConnections(t *testing.T) {
	to := serve(t, "tcp4", "127.0.0.1:0", upper)
	g := newGuest(t, open())
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			conn, err := g.dial(t, to)
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			text := fmt.Sprint("connection ", i)
			if got, err := talk(conn, text); err != nil || got != strings.ToUpper(text) {
				t.Errorf("connection %d: %q, %v", i, got, err)
			}
		})
	}
	all.Wait()
}

// Beyond the bound connections are refused, and a slot is free again when one
// has ended.
func TestConnectionsAreBounded(t *testing.T) {
	to := serve(t, "tcp4", "127.0.0.1:0", upper)
	g := newGuest(t, open())
	var conns []*gonet.TCPConn
	for range maxTCP {
		conn, err := g.dial(t, to)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	if _, err := g.dial(t, to); err == nil {
		t.Error("one more than the bound was let through")
	}
	for _, conn := range conns {
		if got, err := talk(conn, "x"); err != nil || got != "X" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	deadline := time.After(time.Minute)
	for len(g.net.tcp) > 0 {
		select {
		case <-deadline:
			t.Fatalf("%d slots are not given back", len(g.net.tcp))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// echoUDP answers datagrams.
func echoUDP(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, datagramBytes)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(buffer[:n], from) // datagrams may be lost
		}
	}()
	return outside(t, conn.LocalAddr())
}

func (g guest) udp(t *testing.T, to string) *gonet.UDPConn {
	t.Helper()
	at, number := g.full(to)
	conn, err := gonet.DialUDP(g.stack, nil, &at, number)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func ask(t *testing.T, conn net.Conn, text string) (string, error) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	buffer := make([]byte, datagramBytes)
	n, err := conn.Read(buffer)
	return string(buffer[:n]), err
}

func TestUDP(t *testing.T) {
	opts := open()
	opts.idle = func(uint16) idleness { return idleness{tcp: time.Minute, udp: 200 * time.Millisecond} }
	g := newGuest(t, opts)
	conn := g.udp(t, echoUDP(t))
	for _, text := range []string{"one", "two", strings.Repeat("x", 20_000)} {
		if got, err := ask(t, conn, text); err != nil || got != text {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(text))
		}
	}
	deadline := time.After(time.Minute)
	for len(g.net.udp) > 0 {
		select {
		case <-deadline:
			t.Fatal("an idle flow is not dropped")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if got, err := ask(t, conn, "again"); err != nil || got != "again" {
		t.Errorf("after the idle time: %q, %v", got, err)
	}
}

// A resolver may be on the host's loopback, and is reached as a resolver only.
func TestResolver(t *testing.T) {
	resolver := netip.MustParseAddrPort(echoUDP(t))
	stream := netip.MustParseAddrPort(serve(t, "tcp4", "127.0.0.1:0", upper))
	local := netip.MustParseAddr("127.0.0.1")
	at := netip.AddrPortFrom(local, resolver.Port())
	g := newGuest(t, Options{Resolvers: func() []netip.AddrPort { return []netip.AddrPort{at} }})
	if got, err := ask(t, g.udp(t, ResolverAddr(0).String()+":53"), "name"); err != nil || got != "name" {
		t.Errorf("by UDP: %q, %v", got, err)
	}
	at = netip.AddrPortFrom(local, stream.Port())
	conn, err := g.dial(t, ResolverAddr(0).String()+":53")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := talk(conn, "name"); err != nil || got != "NAME" {
		t.Errorf("by TCP: %q, %v", got, err)
	}
	for _, to := range []string{ResolverAddr(0).String() + ":54", ResolverAddr(1).String() + ":53"} {
		if conn, err := g.dial(t, to); err == nil {
			t.Errorf("%s is open", to)
			_ = conn.Close()
		}
	}
}

func TestCloseFreesEverything(t *testing.T) {
	to := serve(t, "tcp4", "127.0.0.1:0", func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	datagrams := echoUDP(t)
	round := func(t *testing.T) {
		g := newGuest(t, open())
		for range 20 {
			if _, err := g.dial(t, to); err != nil {
				t.Fatal(err)
			}
			if _, err := ask(t, g.udp(t, datagrams), "x"); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan struct{})
		go func() { g.net.Close(); close(done) }()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("Close does not end")
		}
		if len(g.net.ends) > 0 || len(g.net.tcp) > 0 || len(g.net.udp) > 0 {
			t.Errorf("%d flows are left", len(g.net.ends))
		}
	}
	t.Run("first", round)
	before := runtime.NumGoroutine()
	for i := range 3 {
		t.Run(fmt.Sprint(i), round)
	}
	// fdbased makes a dispatcher that it does not use, with a goroutine for each
	// processor of the channel: one of ours, up to NumCPU of the guest's.
	unused := 3 * (1 + runtime.GOMAXPROCS(0))
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > before+unused {
		if time.Now().After(deadline) {
			text := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, text[:runtime.Stack(text, true)])
		}
		time.Sleep(50 * time.Millisecond)
	}
}
