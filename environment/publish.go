package environment

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// handRepository holds the images that people run by hand.
const handRepository = "biocage"

// nobody is whom code runs as there, unless docker run says otherwise.
const nobody = 65534

// HandImage is the reference of the image that Publish makes of the
// environment of that name: biocage:latest for the default one.
func HandImage(name string) string {
	if name == DefaultName {
		return handRepository + ":latest"
	}
	return handRepository + ":" + name
}

// Publish makes the image that runs code by hand (`docker run --rm -i
// biocage:latest`): the environment's, with the agent of agentDir on top as
// its entry point. Sandboxes do not use it. An earlier one is replaced.
func (s *Store) Publish(ctx context.Context, e Environment, agentDir string) error {
	if err := s.Load(ctx, e); err != nil {
		return err
	}
	lock, err := s.lockName(e.Name)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with its descriptor
	ref := HandImage(e.Name)
	earlier, err := s.docker.ImageID(ctx, ref)
	if err != nil {
		return fmt.Errorf("publish environment %q: %w", e.Name, err)
	}
	reader, writer := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		writer.CloseWithError(writeHandFiles(ctx, agentDir, writer))
	}()
	changes, err := handChanges(e)
	if err == nil {
		err = s.docker.DeriveImage(ctx, e.Image, ref, reader, changes)
	}
	reader.CloseWithError(io.ErrClosedPipe) // ends the writer when the daemon did not read all
	<-done
	if err != nil {
		return fmt.Errorf("publish environment %q as %s: %w", e.Name, ref, err)
	}
	return s.forgetHandImage(ctx, ref, earlier)
}

// forgetHandImage removes the image that ref named before. One that a
// container still uses stays, without a name, as the daemon's own.
func (s *Store) forgetHandImage(ctx context.Context, ref, earlier string) error {
	now, err := s.docker.ImageID(ctx, ref)
	if err != nil || earlier == "" || earlier == now {
		return err
	}
	if err := s.docker.RemoveImage(ctx, earlier); err != nil {
		s.log.InfoContext(ctx, "an earlier image stays", "image", earlier, "reason", err)
	}
	return nil
}

// writeHandFiles writes what the image has beside the environment: the agent,
// and a workspace that its user may write to, also as a fresh tmpfs, which
// takes its mode from here.
func writeHandFiles(ctx context.Context, agentDir string, w io.Writer) error {
	out := tar.NewWriter(w)
	for _, dir := range []struct {
		name string
		mode int64
	}{{"work/", 0o1777}, {"opt/", 0o755}, {"opt/biocage/", 0o755}} {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: dir.name, Mode: dir.mode, ModTime: archiveTime(), Format: tar.FormatPAX}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
	}
	tree := treeWriter{dir: agentDir, prefix: "opt/biocage", tar: out, links: make(map[uint64]string)}
	return errors.Join(tree.walk(ctx), out.Close())
}

// handChanges are the image's settings as Dockerfile instructions.
func handChanges(e Environment) ([]string, error) {
	entry, err := json.Marshal([]string{e.Python, "-I", "/opt/biocage/biocage_agent_main.py", "--once"})
	if err != nil {
		return nil, err
	}
	return []string{
		"ENTRYPOINT " + string(entry),
		"CMD []",
		fmt.Sprintf("USER %d:%d", nobody, nobody),
		"WORKDIR /work",
		"ENV HOME=/work",
	}, nil
}
