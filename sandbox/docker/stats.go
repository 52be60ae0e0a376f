package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Stats implements sandbox.Sandbox: from the kernel's own files where the
// container runs on this machine, else as the daemon tells.
func (s *Sandbox) Stats(ctx context.Context) (sandbox.Stats, error) {
	select {
	case <-s.done:
		return sandbox.Stats{}, fmt.Errorf("docker: measure sandbox: %w", sandbox.ErrClosed)
	default:
	}
	if s.groups == nil {
		return s.askStats(ctx)
	}
	stats, err := s.groups.read()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		err = fmt.Errorf("%w: %w", sandbox.ErrClosed, err)
	}
	if err != nil {
		return sandbox.Stats{}, fmt.Errorf("docker: measure sandbox: %w", err)
	}
	return stats, nil
}

func (s *Sandbox) askStats(ctx context.Context) (sandbox.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	answer, err := s.engine.api.ContainerStatsOneShot(ctx, s.id)
	if cerrdefs.IsNotFound(err) {
		return sandbox.Stats{}, fmt.Errorf("docker: measure sandbox: %w", sandbox.ErrClosed)
	}
	if err != nil {
		return sandbox.Stats{}, fmt.Errorf("docker: measure sandbox: %w", explain(s.engine.host, err))
	}
	defer func() { _ = answer.Body.Close() }()
	var told container.StatsResponse
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil {
		return sandbox.Stats{}, fmt.Errorf("docker: measure sandbox: %w", err)
	}
	cache := told.MemoryStats.Stats["total_inactive_file"] // version 1 of control groups
	if v2, ok := told.MemoryStats.Stats["inactive_file"]; ok && cache == 0 {
		cache = v2
	}
	return sandbox.Stats{
		MemoryBytes: int64(told.MemoryStats.Usage - min(cache, told.MemoryStats.Usage)),
		OOMKills:    s.engine.events.ooms(s.id),
		CPU:         time.Duration(told.CPUStats.CPUUsage.TotalUsage),
		PIDs:        int(told.PidsStats.Current),
	}, nil
}
