package docker

import (
	"context"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
)

// ImageID is the daemon's id of the image ref, "" when it has no such image.
// It changes whenever the image's content does.
func (e *Engine) ImageID(ctx context.Context, ref string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	found, err := e.api.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("docker: inspect image %s: %w", ref, explain(e.host, err))
	}
	return found.ID, nil
}

// TagImage gives the image ref a second name.
func (e *Engine) TagImage(ctx context.Context, ref, tag string) error {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	if err := e.api.ImageTag(ctx, ref, tag); err != nil {
		return fmt.Errorf("docker: tag image %s as %s: %w", ref, tag, explain(e.host, err))
	}
	return nil
}
