package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// remove kills and deletes a container and returns when it is gone. The
// daemon may be removing it already (AutoRemove); then the call is repeated
// until there is nothing to remove.
func (e *Engine) remove(ctx context.Context, ref string) error {
	const pause = 20 * time.Millisecond
	for {
		err := e.api.ContainerRemove(ctx, ref, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil, cerrdefs.IsNotFound(err):
			return nil
		case !strings.Contains(err.Error(), "already in progress"):
			return fmt.Errorf("remove container: %w", explain(e.host, err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("remove container: %w", context.Cause(ctx))
		}
	}
}

// removeWithin removes although ctx may have ended.
func (e *Engine) removeWithin(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupCall)
	defer cancel()
	return e.remove(ctx, ref)
}
