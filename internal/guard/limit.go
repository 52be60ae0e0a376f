package guard

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many wrong tokens an address may present, and of how many addresses
// this is remembered.
const (
	failureBurst    = 10
	failureInterval = 5 * time.Second
	maxAddresses    = 4096
)

// failures counts the wrong tokens of each address. The addresses that failed
// last are remembered.
type failures struct {
	mu    sync.Mutex
	known map[netip.Prefix]*list.Element
	order *list.List // of *failing, the latest at the back
}

type failing struct {
	from   netip.Prefix
	bucket *rate.Limiter
}

func newFailures() *failures {
	return &failures{known: map[netip.Prefix]*list.Element{}, order: list.New()}
}

// A verdict is what the count says of one attempt.
type verdict int

const (
	right verdict = iota
	wrong
	tooMany
)

// judge counts an attempt. When an address has used up its failures, a token
// that can be guessed is refused even if it is right, or trying would go on at
// full speed. A longer one is always let in: at an address that many share, or
// on this machine, nobody can shut out others by failing.
func (f *failures) judge(from netip.Prefix, now time.Time, isRight, canBeGuessed bool) verdict {
	if isRight && !canBeGuessed {
		return right
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	element, isKnown := f.known[from]
	if isRight {
		if isKnown && bucketOf(element).TokensAt(now) < 1 {
			return tooMany
		}
		return right
	}
	if !isKnown {
		element = f.add(from)
	}
	f.order.MoveToBack(element)
	if bucketOf(element).AllowN(now, 1) {
		return wrong
	}
	return tooMany
}

func (f *failures) add(from netip.Prefix) *list.Element {
	if f.order.Len() >= maxAddresses {
		oldest := f.order.Front()
		f.order.Remove(oldest)
		delete(f.known, oldest.Value.(*failing).from) //nolint:errcheck // the list holds nothing else
	}
	element := f.order.PushBack(&failing{from: from, bucket: rate.NewLimiter(rate.Every(failureInterval), failureBurst)})
	f.known[from] = element
	return element
}

func bucketOf(element *list.Element) *rate.Limiter {
	return element.Value.(*failing).bucket //nolint:errcheck // the list holds nothing else
}

// addressOf is what counts as one address: of IPv6 the network, which one
// machine can have whole.
func addressOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // all that have no address count together
	}
	address, bits := at.Addr().Unmap().WithZone(""), 32
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
