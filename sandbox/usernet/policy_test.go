//go:build linux

package usernet

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutside(t *testing.T) {
	for _, addr := range []string{
		"127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "0.1.2.3",
		"169.254.169.254", "169.254.1.1", "fe80::1", "fe80::1%lo",
		"224.0.0.1", "239.1.1.1", "ff02::1", "255.255.255.255", "240.0.0.1",
		"168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
		"192.0.0.1", "192.0.0.2", "fd0b:10ca:9e00::1",
		// IPv4 in other clothes.
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"2002:7f00:1::1", "2001:0:1::1", "64:ff9b:1::7f00:1",
	} {
		if err := Outside(netip.MustParseAddr(addr)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range ownAddresses(t) {
		if err := Outside(netip.MustParseAddr(addr)); !errors.Is(err, ErrRefused) {
			t.Errorf("this host's %s: %v", addr, err)
		}
	}
	if err := Outside(netip.Addr{}); !errors.Is(err, ErrRefused) {
		t.Errorf("no address: %v", err)
	}
}

// What is no class of its own is allowed, as far as the kernel has a way there.
func TestOutsideAllows(t *testing.T) {
	for _, addr := range []string{
		"1.1.1.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "2606:4700::1111", "fd12:3456::1", "64:ff9b::101:101",
	} {
		if why := special(netip.MustParseAddr(addr)); why != "" {
			t.Errorf("%s is %s", addr, why)
		}
	}
}

func TestResolvers(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", []string{"127.0.0.1:53"}},
		{"search example.org\n# nameserver 1.2.3.4\nnameserver nonsense\n", []string{"127.0.0.1:53"}},
		{"nameserver 10.0.0.1\nnameserver fd00::1\n", []string{"10.0.0.1:53", "[fd00::1]:53"}},
		{"nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4", []string{"10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"}},
	} {
		var got []string
		for _, at := range ParseResolvers(tt.text) {
			got = append(got, at.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
	}
	if diff := cmp.Diff("nameserver 192.0.0.1\nnameserver 192.0.0.3\nnameserver 192.0.0.4\n", ResolvConf(4)); diff != "" {
		t.Error(diff)
	}
	for n := range MaxResolvers {
		if got := resolverIndex(ResolverAddr(n)); got != n {
			t.Errorf("resolver %d is found as %d", n, got)
		}
	}
	if got := resolverIndex(Sandbox().V4.Addr()); got != -1 {
		t.Errorf("the sandbox is resolver %d", got)
	}
}
