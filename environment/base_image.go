package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// registryPatience bounds the first question to a registry: where none can be
// reached, the next way must be tried soon.
const registryPatience = 15 * time.Second

// registryWay pulls an image from its registry, without a Docker daemon.
func registryWay(image string, report reporter) baseWay {
	platform := remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
	pull := func(ctx context.Context) (v1.Image, error) {
		reference, err := name.ParseReference(image)
		if err != nil {
			return nil, fmt.Errorf("%q is not an image reference: %w", image, err)
		}
		return remote.Image(reference, remote.WithContext(ctx), platform)
	}
	return baseWay{
		kind: BaseRegistry, ref: image,
		digest: func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, registryPatience)
			defer cancel()
			found, err := pull(ctx)
			if err != nil {
				return "", fmt.Errorf("the registry cannot be used: %w", err)
			}
			digest, err := found.Digest()
			return digest.String(), err
		},
		fill: func(ctx context.Context, dir string) error {
			found, err := pull(ctx)
			if err != nil {
				return fmt.Errorf("pull %s: %w", image, err)
			}
			total := int64(0)
			layers, err := found.Layers()
			if err != nil {
				return fmt.Errorf("pull %s: %w", image, err)
			}
			for _, layer := range layers {
				if size, err := layer.Size(); err == nil { // only for progress
					total += size
				}
			}
			report.say(phaseBase, fmt.Sprintf("pulling %s, %d MB compressed", image, total>>20))
			return unpackStream(ctx, mutate.Extract(found), dir)
		},
	}
}

// dockerWay exports an image that the local daemon has. It never pulls: where
// the daemon can, the registry was reachable as well, or the user decides.
func (s *Store) dockerWay(image string) baseWay {
	return baseWay{
		kind: BaseDocker, ref: image,
		digest: func(ctx context.Context) (string, error) {
			if s.docker == nil {
				return "", errors.New("no Docker daemon is reachable")
			}
			id, err := s.docker.ImageID(ctx, image)
			if err != nil {
				return "", err
			}
			if id == "" {
				return "", fmt.Errorf("the Docker daemon has no such image; get it with: docker pull %s", image)
			}
			return id, nil
		},
		fill: func(ctx context.Context, dir string) error {
			stream, err := s.docker.ExportImage(ctx, image)
			if err != nil {
				return err
			}
			return unpackStream(ctx, stream, dir)
		},
	}
}

func unpackStream(ctx context.Context, stream io.ReadCloser, dir string) error {
	return errors.Join(readTree(ctx, stream, dir), stream.Close())
}
