package environment

import (
	"context"
	"fmt"
	"io"
)

// DaemonImages is what this package asks of a Docker daemon. References are
// NAME:TAG. Implementations return errors that tell what the daemon said.
type DaemonImages interface {
	// ImageID is the id of a local image, "" when there is none.
	ImageID(ctx context.Context, reference string) (string, error)
	// ExportImage streams the root file system of a local image as a flat tar.
	ExportImage(ctx context.Context, reference string) (io.ReadCloser, error)
	// ImportImage makes an image of a root file system and gives it the tags.
	ImportImage(ctx context.Context, rootfs io.Reader, tags []string) error
	// RemoveImage removes a reference; no error when there is none.
	RemoveImage(ctx context.Context, reference string) error
}

// Load makes sure that the Docker daemon has the environment's image. It does
// nothing when the image is there.
func (s *Store) Load(ctx context.Context, e Environment) error {
	if s.docker == nil {
		return fmt.Errorf("load environment %q: %w", e.Name, ErrNoDocker)
	}
	id, err := s.docker.ImageID(ctx, e.Image)
	if err != nil {
		return fmt.Errorf("load environment %q: %w", e.Name, err)
	}
	if id != "" {
		return nil
	}
	hold, err := s.Hold(e)
	if err != nil {
		return err
	}
	defer hold.Close() //nolint:errcheck // the lock ends with its descriptor
	s.log.InfoContext(ctx, "loading an environment into the Docker daemon", "environment", e.Name, "image", e.Image, "bytes", e.Size)
	reader, writer := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		writer.CloseWithError(writeTree(ctx, e.Dir, writer)) //nolint:errcheck,gosec // always nil
	}()
	err = s.docker.ImportImage(ctx, reader, []string{e.Image, imageRepository(e.Name) + ":latest"})
	reader.CloseWithError(io.ErrClosedPipe) //nolint:errcheck,gosec // always nil; ends the writer when the daemon did not read all
	<-done
	if err != nil {
		return fmt.Errorf("load environment %q into the Docker daemon: %w", e.Name, err)
	}
	return nil
}

// removeImages removes what Load made for these versions, and the latest tag.
func (s *Store) removeImages(ctx context.Context, name string, versions []string) error {
	if s.docker == nil {
		return nil
	}
	for _, version := range versions {
		if err := s.docker.RemoveImage(ctx, imageRepository(name)+":"+version); err != nil {
			return fmt.Errorf("remove an image of environment %q: %w", name, err)
		}
	}
	return nil
}
