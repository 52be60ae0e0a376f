//go:build linux && (amd64 || arm64)

package gvisor

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Users inside a sandbox.
const (
	guestRoot   = 0    // the supervisor
	guestWorker = 1000 // the worker, where the supervisor can drop to it
)

// Host ids for sandboxes are drawn from a range that neither people, nor
// subordinate ids (from 100,000), nor systemd (up to 1,879,048,191) use.
const (
	rangeFirst = 1_900_000_000
	rangeLast  = 2_100_000_000
)

// An identity says who a sandbox's users are on the host. Two sandboxes never
// share host ids when this process is root (but for a chance of some 1 in
// 100 million); an ordinary user has one id to give.
type identity struct {
	hostUID, hostGID uint32 // what guestRoot is
	pair             bool   // guestWorker is hostUID+1, hostGID+1
}

func newIdentity() (identity, error) {
	if os.Geteuid() != 0 {
		return identity{hostUID: uint32(os.Geteuid()), hostGID: uint32(os.Getegid())}, nil
	}
	uids, err := readIDRange("/proc/self/uid_map")
	if err != nil {
		return identity{}, err
	}
	gids, err := readIDRange("/proc/self/gid_map")
	if err != nil {
		return identity{}, err
	}
	first, last := pickRange(min(uids, gids))
	if first == 0 {
		return identity{}, nil // root of a namespace that knows no other id
	}
	base := first + randomBelow((last-first)/2)*2
	return identity{hostUID: base, hostGID: base, pair: true}, nil
}

// readIDRange tells how many ids from 0 on are mapped here.
func readIDRange(path string) (uint64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		var inside, outside, size uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return 0, fmt.Errorf("%s has an unknown form: %w", path, err)
		}
		if inside == 0 {
			return size, nil
		}
	}
	return 0, nil
}

// pickRange chooses where to draw ids from, given ids 0 to size-1.
func pickRange(size uint64) (first, last uint32) {
	switch {
	case size > rangeLast:
		return rangeFirst, rangeLast
	case size >= 4096: // a container's own namespace: its upper half
		return uint32(size / 2), uint32(size - 2)
	default:
		return 0, 0
	}
}

func randomBelow(n uint32) uint32 {
	var raw [4]byte
	_, _ = rand.Read(raw[:]) // never fails
	return binary.LittleEndian.Uint32(raw[:]) % n
}

func (id identity) mappings() (uids, gids []specs.LinuxIDMapping) {
	uids = []specs.LinuxIDMapping{{ContainerID: guestRoot, HostID: id.hostUID, Size: 1}}
	gids = []specs.LinuxIDMapping{{ContainerID: guestRoot, HostID: id.hostGID, Size: 1}}
	if id.pair {
		uids = append(uids, specs.LinuxIDMapping{ContainerID: guestWorker, HostID: id.hostUID + 1, Size: 1})
		gids = append(gids, specs.LinuxIDMapping{ContainerID: guestWorker, HostID: id.hostGID + 1, Size: 1})
	}
	return uids, gids
}
