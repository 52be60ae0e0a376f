package remains

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// leftEntries lists what is in the directories.
func leftEntries(dirs []string) ([]string, error) {
	var left []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot look for what is left: %w", err)
		}
		for _, entry := range entries {
			left = append(left, "directory entry "+filepath.Join(dir, entry.Name()))
		}
	}
	return left, nil
}

// leftMounts lists the mounts whose description holds one of the words.
func leftMounts(words []string) ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot list mounts: %w", err)
	}
	return pickMounts(string(table), words), nil
}

func pickMounts(table string, words []string) []string {
	var left []string
	for line := range strings.Lines(table) {
		for _, word := range words {
			if strings.Contains(line, word) {
				left = append(left, "mount "+strings.TrimSpace(line))
				break
			}
		}
	}
	return left
}

// groupDepth bounds how deep control groups are looked for: a container's
// group is at most system.slice/docker-ID.scope below a controller.
const groupDepth = 6

// leftGroups lists the control groups that are named after a sandbox.
func leftGroups(boxes []string) ([]string, error) {
	const root = "/sys/fs/cgroup"
	var left []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile, or no control groups here
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case strings.Count(strings.TrimPrefix(path, root), "/") > groupDepth:
			return fs.SkipDir
		}
		for _, id := range boxes {
			if strings.Contains(entry.Name(), id) {
				left = append(left, "control group "+path)
				return fs.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list control groups: %w", err)
	}
	return left, nil
}
