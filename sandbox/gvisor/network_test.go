//go:build linux && (amd64 || arm64)

package gvisor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/sandboxtest"
)

func networkSpec(t *testing.T) sandbox.Spec {
	t.Helper()
	spec := testSpec(t)
	spec.Network = sandbox.NetworkFull
	return spec
}

// capitals answers each connection, when it has heard all, in capitals.
func capitals(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			if said, err := io.ReadAll(conn); err == nil {
				_, _ = conn.Write(bytes.ToUpper(said)) // who has gone hears nothing
			}
		}()
	}
}

func echoes(conn net.PacketConn) {
	buffer := make([]byte, 64<<10)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = conn.WriteTo(buffer[:n], from) // datagrams may be lost
	}
}

// A sandbox with the network on reaches another machine.
func TestNetworkFull(t *testing.T) {
	outside := sandboxtest.NewOutside(t)
	var tcp net.Listener
	var udp net.PacketConn
	outside.Do(t, func() {
		var err error
		if tcp, err = net.Listen("tcp4", outside.Addr.String()+":0"); err != nil {
			t.Fatal(err)
		}
		if udp, err = net.ListenPacket("udp4", outside.Addr.String()+":0"); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { _, _ = tcp.Close(), udp.Close() })
	go capitals(tcp)
	go echoes(udp)
	k := start(t, testEngine(t, nil), networkSpec(t))
	python := func(code string) string {
		code = "import socket, hashlib, threading\nTCP, UDP = " + address(tcp.Addr()) + ", " + address(udp.LocalAddr()) + `
def talk(data):
    link = socket.create_connection(TCP, 20)
    threading.Thread(target=lambda: (link.sendall(data), link.shutdown(socket.SHUT_WR))).start()
    got = b"".join(iter(lambda: link.recv(1 << 16), b""))
    link.close()
    return got
` + code
		return k.eval("%s", fmt.Sprintf("(lambda space: (exec(%q, space), space['result'])[1])({})", code))
	}
	for _, c := range []struct{ name, code, want string }{
		{"a half-closed connection", "result = talk(b'hello')", "b'HELLO'"},
		{"8 MiB", "data = hashlib.shake_256(b'x').hexdigest(4 << 20).encode()\nresult = talk(data) == data.upper()", "True"},
		{"60 connections", `
done = []
threads = [threading.Thread(target=lambda i=i: done.append(talk(b"n%d" % i) == b"N%d" % i)) for i in range(60)]
[t.start() for t in threads]; [t.join() for t in threads]
result = done.count(True)`, "60"},
		{"datagrams", `
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); link.settimeout(20); link.connect(UDP)
link.send(b"one"); first = link.recv(100); link.send(b"x" * 9000)
result = first, len(link.recv(10000))`, "(b'one', 9000)"},
		{"a closed port", `
try: socket.create_connection((TCP[0], 1), 20); result = "open"
except ConnectionRefusedError: result = "refused"`, "'refused'"},
	} {
		if got := python(c.code); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := k.eval("open('/etc/resolv.conf').read().split()[:2]"); got != "['nameserver', '192.0.0.1']" {
		t.Errorf("resolv.conf: %s", got)
	}
}

func address(addr net.Addr) string {
	host, port, _ := net.SplitHostPort(addr.String()) // as the net package writes it
	return fmt.Sprintf("(%q, %s)", host, port)
}

// The host itself stays out of reach, by whatever address.
func TestNetworkFullKeepsTheHostOut(t *testing.T) {
	listener, err := net.Listen("tcp", ":0") // all addresses, both families
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	datagrams, err := net.ListenPacket("udp", fmt.Sprintf(":%d", listener.Addr().(*net.TCPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = datagrams.Close() }()
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "192.0.0.1", "169.254.169.254", "fd00:ec2::254", "localhost"}
	for _, a := range own {
		if ip, ok := a.(*net.IPNet); ok {
			hosts = append(hosts, ip.IP.String())
			if ip.IP.To4() != nil {
				hosts = append(hosts, "::ffff:"+ip.IP.String())
			}
		}
	}
	k := start(t, testEngine(t, nil), networkSpec(t))
	code := fmt.Sprintf(`
import socket
result = []
for host in %q.split():
    for port in %d, 80:
        try:
            socket.create_connection((host, port), 10).close()
            result.append((host, port))
        except OSError as error:
            if isinstance(error, TimeoutError): result.append((host, "hangs"))
        try:
            link = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
            link.sendto(b"x", (host, port))
        except OSError: pass
`, strings.Join(hosts, " "), listener.Addr().(*net.TCPAddr).Port)
	if got := k.eval("%s", fmt.Sprintf("(lambda space: (exec(%q, space), space['result'])[1])({})", code)); got != "[]" {
		t.Errorf("reached, or not refused at once: %s", got)
	}
	// A refusal is a matter of milliseconds, so what was let through is here.
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if conn, err := listener.Accept(); err == nil {
		t.Errorf("a sandbox reached %s of this machine", conn.LocalAddr())
	}
	if err := datagrams.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, from, err := datagrams.ReadFrom(make([]byte, 16)); err == nil {
		t.Errorf("%d bytes from %s reached this machine", n, from)
	}
}

// A sandbox that lost its network ends, and says why.
func TestNetworkProcessEnds(t *testing.T) {
	k := start(t, testEngine(t, nil), networkSpec(t))
	b := k.box.(*box)
	if err := unix.Kill(b.uplink.process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the sandbox goes on without its network")
	}
	if got := b.Exit().Reason; !strings.Contains(got, "network ended") || !strings.Contains(got, "killed") {
		t.Errorf("reason %q", got)
	}
}

// Nothing of a network is left: no process, no descriptor. Where this process
// is killed, the kernel ends the lease.
func TestNetworkLeavesNothing(t *testing.T) {
	e := testEngine(t, nil)
	round := func() int {
		k := start(t, e, networkSpec(t))
		pid := k.box.(*box).uplink.process.Pid
		if os.Geteuid() == 0 {
			var info unix.Stat_t
			if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &info); err != nil || info.Uid < rangeFirst {
				t.Errorf("the network runs as user %d (%v)", info.Uid, err)
			}
		}
		parts, err := findParts(e.inst.state())
		if err != nil || !slices.Contains(parts, pid) {
			t.Errorf("the network's process %d is not found among %v, %v", pid, parts, err)
		}
		if err := k.box.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		if parts, err := findParts(e.inst.state()); err != nil || len(parts) > 0 {
			t.Errorf("processes %v are left (%v)", parts, err)
		}
		fds, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := round()
	for range 3 {
		if after := round(); after > before+1 {
			t.Errorf("%d descriptors, %d before", after, before)
		}
	}
}
