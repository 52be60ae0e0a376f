package environment

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// DaemonImages is what this package asks of a Docker daemon; the Docker engine
// implements it. References are NAME:TAG.
type DaemonImages interface {
	// ImageID is the id of a local image, "" when there is none.
	ImageID(ctx context.Context, ref string) (string, error)
	// ExportImage streams the root file system of a local image as a flat tar.
	ExportImage(ctx context.Context, ref string) (io.ReadCloser, error)
	// ImportImage makes the image ref of a root file system's tar; changes are
	// Dockerfile instructions.
	ImportImage(ctx context.Context, ref string, rootfs io.Reader, changes []string) error
	// DeriveImage makes the image ref of the image base: with the files of a
	// tar that is laid over it, and with changes. Nothing of it runs.
	DeriveImage(ctx context.Context, base, ref string, files io.Reader, changes []string) error
	// TagImage gives the image ref a second name.
	TagImage(ctx context.Context, ref, tag string) error
	// RemoveImage removes a reference; no error when there is none.
	RemoveImage(ctx context.Context, ref string) error
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
		writer.CloseWithError(writeTree(ctx, e.Dir, writer))
	}()
	err = s.docker.ImportImage(ctx, e.Image, reader, imageChanges(e))
	reader.CloseWithError(io.ErrClosedPipe) // ends the writer when the daemon did not read all
	<-done
	if err != nil {
		return fmt.Errorf("load environment %q into the Docker daemon: %w", e.Name, err)
	}
	if err := s.docker.TagImage(ctx, e.Image, imageRepository(e.Name)+":latest"); err != nil {
		return fmt.Errorf("load environment %q into the Docker daemon: %w", e.Name, err)
	}
	return nil
}

// imageChanges let a person start the environment's bare Python.
func imageChanges(e Environment) []string {
	changes := []string{"WORKDIR /work", fmt.Sprintf("CMD [%q]", e.Python)}
	for _, entry := range e.Env() {
		changes = append(changes, "ENV "+entry)
	}
	return changes
}

// removeImages removes what Load made for these versions; with the version
// "latest", what Publish made too.
func (s *Store) removeImages(ctx context.Context, name string, versions []string) error {
	if s.docker == nil {
		return nil
	}
	refs := make([]string, 0, len(versions)+1)
	for _, version := range versions {
		refs = append(refs, imageRepository(name)+":"+version)
	}
	if slices.Contains(versions, "latest") { // all of it goes
		refs = append(refs, HandImage(name))
	}
	for _, ref := range refs {
		if err := s.docker.RemoveImage(ctx, ref); err != nil {
			return fmt.Errorf("remove an image of environment %q: %w", name, err)
		}
	}
	return nil
}
