package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/biocypher/biocage-mcp/sandbox"
)

var (
	errPosture  = errors.New("the container is not what was asked for")
	errImpostor = errors.New("a wrong secret was sent to the sandbox's socket")
	errLongPath = errors.New("the socket's path is too long; set TMPDIR to a shorter directory")
	errEnded    = errors.New("the container ended before its agent answered")
)

// explain gives the daemon's error a class and a remedy.
func explain(host string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, os.ErrPermission) || has("permission denied while trying to connect"):
		return fmt.Errorf("%w: no permission to use the Docker daemon at %s; join the group docker (usermod -aG docker USER, then log in again) or run as root: %w", sandbox.ErrUnavailable, host, err)
	case client.IsErrConnectionFailed(err), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: no Docker daemon answers at %s; start it (systemctl start docker) or set DOCKER_HOST: %w", sandbox.ErrUnavailable, host, err)
	case cerrdefs.IsNotFound(err) && has("No such image", "no such image"):
		return fmt.Errorf("%w; run: biocage env build: %w", sandbox.ErrRootMissing, err)
	case has("bind source path does not exist"):
		return fmt.Errorf("%w: the Docker daemon at %s does not see this machine's files; run biocage on the daemon's machine: %w", sandbox.ErrUnavailable, host, err)
	case has("no space left on device", "cannot allocate memory", "too many open files", "resource temporarily unavailable"):
		return fmt.Errorf("%w: %w", sandbox.ErrExhausted, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: the Docker daemon at %s did not answer in time: %w", sandbox.ErrUnavailable, host, err)
	}
	return err
}
