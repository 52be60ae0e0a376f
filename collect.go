package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/biocypher/biocage-mcp/session"
)

// collect puts the images and the workspace's files below --out. Names come
// from the sandbox, so they are opened beneath the directory's descriptor,
// never through a symbolic link out of it.
func (s script) collect(ctx context.Context, res *session.RunResult) error {
	root, err := os.OpenRoot(s.flags.out)
	if err != nil {
		return err
	}
	err = s.collectImages(root, res.Displays)
	if err == nil {
		err = s.collectFiles(ctx, root, res)
	}
	return errors.Join(err, root.Close())
}

func (s script) collectImages(root *os.Root, displays []session.Display) error {
	extensions := map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/svg+xml": ".svg"}
	n := 0
	for _, d := range displays {
		extension, ok := extensions[d.MIME]
		if !ok {
			continue
		}
		n++
		if err := root.WriteFile(fmt.Sprintf("image-%d%s", n, extension), d.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (s script) collectFiles(ctx context.Context, root *os.Root, res *session.RunResult) error {
	list, err := s.cage.ListFiles(ctx, s.ref, session.ListRequest{Recursive: true})
	if err != nil {
		return err
	}
	if list.Truncated {
		res.Notes = append(res.Notes, fmt.Sprintf("Only the first %d files were put into %s.", len(list.Entries), s.flags.out))
		s.h.log.WarnContext(ctx, "not all files were collected", "listed", len(list.Entries))
	}
	for _, entry := range list.Entries {
		if entry.Type != "file" {
			continue
		}
		if !filepath.IsLocal(entry.Path) {
			s.h.log.WarnContext(ctx, "file not collected: its path leaves the directory", "path", entry.Path)
			continue
		}
		if err := s.collectFile(ctx, root, entry.Path); err != nil {
			return fmt.Errorf("%s: %w", entry.Path, err)
		}
	}
	return nil
}

func (s script) collectFile(ctx context.Context, root *os.Root, path string) error {
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := root.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(s.copyFile(ctx, file, path), file.Close())
}
