//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"fmt"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Stats implements sandbox.Sandbox. Without control groups the memory is what
// the sandbox's kernel counts, as seen at most guardInterval ago.
func (b *box) Stats(context.Context) (sandbox.Stats, error) {
	select {
	case <-b.done:
		return sandbox.Stats{}, fmt.Errorf("measure the sandbox: %w", sandbox.ErrClosed)
	default:
	}
	if b.group == nil {
		if b.usage.Load() == 0 { // the watcher has not looked yet
			b.measure()
		}
		return sandbox.Stats{MemoryBytes: b.usage.Load(), OOMKills: -1, CPU: -1, PIDs: -1}, nil
	}
	stats, err := b.group.stats()
	if err != nil {
		return sandbox.Stats{}, fmt.Errorf("measure the sandbox: %w", err)
	}
	return stats, nil
}
