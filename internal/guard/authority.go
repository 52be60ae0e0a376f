package guard

import (
	"net/netip"
	"strconv"
	"strings"
)

// An authority is a host and a port as they stand in a Host header or in an
// origin, in their one canonical spelling.
type authority struct {
	host string // lower case; addresses without brackets
	port string // "" when none is given
}

// maxAuthority is a DNS name's longest text, a port and some room.
const maxAuthority = 270

// parseAuthority reads HOST, HOST:PORT, ADDRESS or [ADDRESS]:PORT. Whatever
// could be read in two ways is refused: empty labels, a name's closing dot,
// zones, signs or zeros before a port.
func parseAuthority(text string) (authority, bool) {
	if len(text) > maxAuthority {
		return authority{}, false
	}
	read := readName
	if strings.HasPrefix(text, "[") {
		read = readBracketed
	}
	host, port, ok := read(text)
	if !ok {
		return authority{}, false
	}
	port, hasPort := strings.CutPrefix(port, ":")
	if hasPort && !isPort(port) || !hasPort && port != "" {
		return authority{}, false
	}
	return authority{host: host, port: port}, true
}

// readName splits NAME from what follows it.
func readName(text string) (host, rest string, ok bool) {
	end := strings.IndexByte(text, ':')
	if end < 0 {
		end = len(text)
	}
	return strings.ToLower(text[:end]), text[end:], isHostName(text[:end])
}

// readBracketed splits [ADDRESS] from what follows it.
func readBracketed(text string) (host, rest string, ok bool) {
	host, rest, ok = strings.Cut(text[1:], "]")
	address, err := netip.ParseAddr(host)
	if !ok || err != nil || !address.Is6() || address.Zone() != "" {
		return "", "", false
	}
	return address.String(), rest, true
}

// isHostName tells whether text is a DNS name or an IPv4 address. Underscores
// are allowed because container networks name services so.
func isHostName(text string) bool {
	if text == "" || len(text) > 253 {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; !isAlphanumeric(c) && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isPort tells whether text is a port in its only spelling.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == text
}

// withPort gives the authority with the scheme's port when it has none.
func (a authority) withPort(scheme string) authority {
	if a.port == "" {
		a.port = defaultPort(scheme)
	}
	return a
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// isLoopback tells whether the host means this machine and nothing else.
func (a authority) isLoopback() bool {
	address, err := netip.ParseAddr(a.host)
	return a.host == "localhost" || err == nil && address.IsLoopback()
}

// loopbackNames are the names under which browsers and clients reach a
// listener on this machine. 0.0.0.0 is none of them, although systems route it.
func loopbackNames() []string { return []string{"localhost", "127.0.0.1", "::1"} }
