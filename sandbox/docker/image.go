package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
)

// HasImage tells whether the daemon has the image ref.
func (e *Engine) HasImage(ctx context.Context, ref string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	_, err := e.api.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("docker: inspect image %s: %w", ref, explain(e.host, err))
	}
	return true, nil
}

// ImportImage makes the image ref of a root file system's tar. changes are
// Dockerfile instructions ("ENV LANG=C.UTF-8"). ctx bounds the whole import.
func (e *Engine) ImportImage(ctx context.Context, ref string, tar io.Reader, changes []string) error {
	answer, err := e.api.ImageImport(ctx, image.ImportSource{Source: tar, SourceName: "-"}, ref, image.ImportOptions{Changes: changes})
	if err != nil {
		return fmt.Errorf("docker: import image %s: %w", ref, explain(e.host, err))
	}
	defer func() { _ = answer.Close() }()
	// The daemon answers with a line a step; a fault comes as one of them.
	lines := json.NewDecoder(answer)
	for {
		var line struct {
			Error string `json:"error"`
		}
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("docker: import image %s: %w", ref, explain(e.host, err))
		case line.Error != "":
			return fmt.Errorf("docker: import image %s: %w", ref, explain(e.host, errors.New(line.Error)))
		}
	}
}

// DeriveImage makes the image ref of the image base, with the files of a tar
// laid over it and with changes. Nothing of it runs. The container that it is
// made in has no labels of ours, because the image and then every container of
// the image would have them; what a crash leaves of it goes by its name.
func (e *Engine) DeriveImage(ctx context.Context, base, ref string, files io.Reader, changes []string) error {
	name := "biocage-derive-" + strings.NewReplacer("/", "-", ":", "-").Replace(ref)
	fault := func(err error) error {
		return fmt.Errorf("docker: make image %s: %w", ref, errors.Join(explain(e.host, err), e.removeWithin(ctx, name)))
	}
	if err := e.removeWithin(ctx, name); err != nil {
		return fmt.Errorf("docker: make image %s: %w", ref, err)
	}
	made, err := e.api.ContainerCreate(ctx, &container.Config{
		Image: base, Entrypoint: []string{"/nothing"},
	}, &container.HostConfig{NetworkMode: "none"}, nil, nil, name)
	if err != nil {
		return fault(err)
	}
	if err := e.api.CopyToContainer(ctx, made.ID, "/", files, container.CopyToContainerOptions{}); err != nil {
		return fault(err)
	}
	commit := container.CommitOptions{Reference: ref, Changes: changes, Config: &container.Config{}}
	if _, err := e.api.ContainerCommit(ctx, made.ID, commit); err != nil {
		return fault(err)
	}
	return e.removeWithin(ctx, made.ID)
}

// ExportImage is the root file system of the image ref as a tar. Closing the
// reader removes the container that was made for it; nothing of it ever ran.
func (e *Engine) ExportImage(ctx context.Context, ref string) (io.ReadCloser, error) {
	name := "biocage-export-" + randomHex(8)
	made, err := e.api.ContainerCreate(ctx, &container.Config{
		Image: ref, Entrypoint: []string{"/nothing"}, NetworkDisabled: true,
		Labels: e.labels("export", 0, time.Now()),
	}, &container.HostConfig{NetworkMode: "none"}, nil, nil, name)
	if err != nil {
		return nil, fmt.Errorf("docker: export image %s: %w", ref, errors.Join(explain(e.host, err), e.removeWithin(ctx, name)))
	}
	e.hold(name)
	done := func() error {
		e.release(name)
		return e.removeWithin(ctx, made.ID)
	}
	tar, err := e.api.ContainerExport(ctx, made.ID)
	if err != nil {
		return nil, fmt.Errorf("docker: export image %s: %w", ref, errors.Join(explain(e.host, err), done()))
	}
	return &exported{ReadCloser: tar, done: done}, nil
}

type exported struct {
	io.ReadCloser
	done func() error
}

// Close ends the transfer and removes the container.
func (x *exported) Close() error { return errors.Join(x.ReadCloser.Close(), x.done()) }

// RemoveImage deletes the image ref; that it is not there is no error.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, slowCall)
	defer cancel()
	_, err := e.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("docker: remove image %s: %w", ref, explain(e.host, err))
	}
	return nil
}
