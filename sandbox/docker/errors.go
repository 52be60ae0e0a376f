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
	unavailable := func(form string) error {
		return &sandbox.FaultError{Class: sandbox.ErrUnavailable, Text: fmt.Sprintf(form, host), Err: err}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, os.ErrPermission) || has("permission denied while trying to connect"):
		return unavailable("no permission to use the Docker daemon at %s; join the group docker (usermod -aG docker USER, then log in again) or run as root")
	case client.IsErrConnectionFailed(err), errors.Is(err, os.ErrNotExist):
		return unavailable("no Docker daemon answers at %s; start it (systemctl start docker), install it (apt-get install docker.io) or set DOCKER_HOST")
	case cerrdefs.IsNotFound(err) && has("No such image", "no such image"):
		return &sandbox.FaultError{Class: sandbox.ErrRootMissing, Text: "the environment is not at the Docker daemon; run: biocage env build", Err: err}
	case has("bind source path does not exist"):
		return unavailable("the Docker daemon at %s does not see this machine's files; run biocage on the daemon's machine")
	case has("no space left on device", "cannot allocate memory", "too many open files", "resource temporarily unavailable"):
		return fmt.Errorf("%w: %w", sandbox.ErrExhausted, err)
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("the Docker daemon at %s did not answer in time; see what keeps it busy, or restart it (systemctl restart docker)")
	}
	return err
}
