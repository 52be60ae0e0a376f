package remains

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ownedEntries lists the entries of dir that belong to the process: by a name
// such as biocage-PID-START-…, or by a file `owner` with both.
func ownedEntries(dir string, server identity) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look for what is left: %w", err)
	}
	var owned []string
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if strings.HasPrefix(entry.Name(), fmt.Sprintf("biocage-%d-%s-", server.pid, server.start)) || ownerOf(path) == server {
			owned = append(owned, path)
		}
	}
	return owned, nil
}

// ownerOf reads the file `owner` of a directory; nobody when there is none.
func ownerOf(dir string) identity {
	raw, err := os.ReadFile(filepath.Join(dir, "owner"))
	if err != nil {
		return identity{} // most entries have none
	}
	var owner struct {
		PID   int         `json:"pid"`
		Start json.Number `json:"start"`
	}
	if err := json.Unmarshal(raw, &owner); err != nil {
		return identity{} // it is somebody else's
	}
	return identity{pid: owner.PID, start: owner.Start.String()}
}

// leftPlaces lists those that are still there.
func leftPlaces(places []string) []string {
	var left []string
	for _, place := range places {
		if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, "directory "+place)
		}
	}
	return left
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

// RunDirs are where servers of this user keep what lives as long as they do:
// below runtimeDir (XDG_RUNTIME_DIR, which root does not use) or tempDir.
func RunDirs(uid int, runtimeDir, tempDir string) []string {
	if uid == 0 {
		return []string{"/run/biocage", tempDir}
	}
	dirs := []string{filepath.Join("/tmp", fmt.Sprintf("biocage-%d", uid)), tempDir}
	if runtimeDir != "" {
		dirs = append(dirs, filepath.Join(runtimeDir, "biocage"))
	}
	return dirs
}
