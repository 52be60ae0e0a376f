package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// Every sandbox has a user id of its own, because the kernel counts inotify
// instances, pipe pages and the like per user, across containers. The range
// lies above what hosts use and below what a plain tar header can hold; where
// the daemon maps ids only the first 65,536 exist.
const (
	uidBase       = 1_000_000
	uidCount      = 1 << 20
	mappedUIDBase = 10_000
	mappedUIDs    = 50_000
	uidTries      = 64
)

// takeUID reserves a user id that no living container of ours uses.
func (e *Engine) takeUID(ctx context.Context, d *daemon) (int, error) {
	used, err := e.usedUIDs(ctx)
	if err != nil {
		return 0, err
	}
	base, count := uidBase, int64(uidCount)
	if d.remapped {
		base, count = mappedUIDBase, mappedUIDs
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for range uidTries {
		n, err := rand.Int(rand.Reader, big.NewInt(count))
		if err != nil {
			return 0, fmt.Errorf("docker: choose user id: %w", err)
		}
		uid := base + int(n.Int64())
		_, mine := e.uids[uid]
		_, other := used[uid]
		if !mine && !other {
			e.uids[uid] = struct{}{}
			return uid, nil
		}
	}
	return 0, errors.New("docker: choose user id: none is free; remove left containers with the label " + labelInstance)
}

func (e *Engine) freeUID(uid int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.uids, uid)
}

func (e *Engine) usedUIDs(ctx context.Context) (map[int]struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelUID))})
	if err != nil {
		return nil, fmt.Errorf("docker: list containers: %w", explain(e.host, err))
	}
	used := make(map[int]struct{}, len(list))
	for _, c := range list {
		if uid, err := strconv.Atoi(c.Labels[labelUID]); err == nil {
			used[uid] = struct{}{}
		}
	}
	return used, nil
}

// randomHex is n random bytes; the reader of crypto/rand cannot fail.
func randomHex(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw)
	return hex.EncodeToString(raw)
}
