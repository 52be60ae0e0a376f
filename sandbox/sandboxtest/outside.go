//go:build linux

package sandboxtest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// An Outside stands for another machine: a network namespace of its own behind
// a pair of interfaces. It needs root, and ends with the test.
type Outside struct {
	Addr netip.Addr // its address
	Here netip.Addr // this machine's address on the way there
	ns   netns.NsHandle
}

// NewOutside makes one.
func NewOutside(t testing.TB) Outside {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	block := byte(os.Getpid() % 64)
	o := Outside{Here: netip.AddrFrom4([4]byte{198, 18, block, 1}), Addr: netip.AddrFrom4([4]byte{198, 18, block, 2})}
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = home.Close() }()
	if o.ns, err = netns.New(); err != nil {
		runtime.UnlockOSThread()
		t.Skipf("no network namespace can be made here: %v", err)
	}
	if err := netns.Set(home); err != nil {
		t.Fatal(err) // with its thread
	}
	runtime.UnlockOSThread()
	name := fmt.Sprintf("bcout%d", os.Getpid()%1_000_000)
	t.Cleanup(func() { _ = o.ns.Close() })
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(o.ns)}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Skipf("no pair of interfaces can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkDel(veth); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	})
	there, err := netlink.NewHandleAt(o.ns)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := errors.Join(up(&netlink.Handle{}, name, o.Here), up(there, "eth0", o.Addr)); err != nil {
		t.Fatal(err)
	}
	return o
}

func up(h *netlink.Handle, name string, addr netip.Addr) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	at, err := netlink.ParseAddr(netip.PrefixFrom(addr, 30).String())
	if err != nil {
		return err
	}
	return errors.Join(h.AddrAdd(link, at), h.LinkSetUp(link))
}

// Do runs f there: the sockets that f makes stay there.
func (o Outside) Do(t testing.TB, f func()) {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = home.Close() }()
	if err := netns.Set(o.ns); err != nil {
		t.Fatal(err)
	}
	f()
	if err := netns.Set(home); err != nil {
		t.Fatal(err) // with its thread
	}
	runtime.UnlockOSThread()
}
