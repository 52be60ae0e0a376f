package pyagent

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// source is the agent, byte for byte.
//
//go:embed biocage_agent_main.py biocage_agent/*.py
var source embed.FS

// Command is what starts the supervisor in a sandbox that shows the source at
// agentDir; an engine appends the channel.
func Command(python, agentDir string) []string {
	return []string{python, "-I", agentDir + "/biocage_agent_main.py"}
}

// Install writes the agent's source below dir, in a folder named after its
// content, and returns that folder. A folder that is there already is
// complete, because it appears by a rename.
func Install(dir string) (string, error) {
	id, err := sourceID()
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, id)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("install agent: %w", err)
	}
	temp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return "", fmt.Errorf("install agent: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // after the rename there is nothing left to remove
	if err := os.CopyFS(filepath.Join(temp, "agent"), source); err != nil {
		return "", fmt.Errorf("install agent: %w", err)
	}
	if err := makeReadable(filepath.Join(temp, "agent")); err != nil {
		return "", fmt.Errorf("install agent: %w", err)
	}
	err = os.Rename(filepath.Join(temp, "agent"), target)
	if err != nil && !isThere(target) { // another process may have been first
		return "", fmt.Errorf("install agent: %w", err)
	}
	return target, nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// makeReadable lets the sandbox's user read the source whatever our umask.
func makeReadable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755)
		default:
			return os.Chmod(path, 0o644)
		}
	})
}

// sourceID names the agent's source by its content.
func sourceID() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := source.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read agent source: %w", err)
	}
	return "agent-" + strings.ToLower(hex.EncodeToString(h.Sum(nil)[:8])), nil
}
