//go:build linux && (amd64 || arm64)

package gvisor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"

	"github.com/biocypher/biocage-mcp/sandbox/usernet"
)

const linkName = "eth0"

// connect gives the sandbox its end of the link, before it starts. gVisor's
// starter would look for interfaces in the namespace of the sandbox's host
// process, which has none and shall have none; so it is told by ours.
func (s *starter) connect() error {
	conn, err := client.ConnectTo(s.cont.Sandbox.GetControlSocketPath())
	if err != nil {
		return fmt.Errorf("reach the sandbox's kernel: %w", err)
	}
	args := networkArgs(usernet.HasIPv6())
	args.Files = []*os.File{s.uplink.guest}
	err = conn.Call(boot.ContMgrSetNetworkArgs, args, nil)
	if err := errors.Join(err, conn.Close(), s.uplink.guest.Close()); err != nil {
		return fmt.Errorf("give the sandbox its network: %w", err)
	}
	return nil
}

// startConfig is what gVisor's starter is told. It is the caller's view only:
// the sandbox's kernel has long been started without the host's network, and
// "host" makes the starter leave alone the links that connect has given.
func (s *starter) startConfig() *config.Config {
	if s.uplink == nil {
		return s.engine.conf
	}
	conf := *s.engine.conf
	conf.Network = config.NetworkHost
	return &conf
}

func networkArgs(ipv6 bool) *boot.CreateLinksAndRoutesArgs {
	mine, gateway := usernet.Sandbox(), usernet.Gateway()
	args := &boot.CreateLinksAndRoutesArgs{
		LoopbackLinks:    []boot.LoopbackLink{boot.DefaultLoopbackLink},
		Defaultv4Gateway: boot.DefaultRoute{Name: linkName, Route: defaultRoute(net.IPv4len, gateway.V4)},
	}
	ends := []netip.Prefix{mine.V4}
	if ipv6 {
		ends = append(ends, mine.V6)
		args.Defaultv6Gateway = boot.DefaultRoute{Name: linkName, Route: defaultRoute(net.IPv6len, gateway.V6)}
	}
	link := boot.FDBasedLink{
		Name: linkName, MTU: usernet.MTU, NumChannels: 1, QDisc: config.QDiscFIFO,
		// A socket pair loses and changes nothing.
		TXChecksumOffload: true, RXChecksumOffload: true,
	}
	for _, end := range ends {
		link.Addresses = append(link.Addresses, boot.IPWithPrefix{Address: end.Addr().AsSlice(), PrefixLen: end.Bits()})
		network := end.Masked()
		link.Routes = append(link.Routes, boot.Route{Destination: net.IPNet{
			IP: network.Addr().AsSlice(), Mask: net.CIDRMask(network.Bits(), network.Addr().BitLen()),
		}})
	}
	args.FDBasedLinks = []boot.FDBasedLink{link}
	return args
}

func defaultRoute(size int, gateway netip.Prefix) boot.Route {
	return boot.Route{
		Destination: net.IPNet{IP: make(net.IP, size), Mask: make(net.IPMask, size)},
		Gateway:     gateway.Addr().AsSlice(),
	}
}
