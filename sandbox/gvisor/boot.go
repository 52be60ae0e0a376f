//go:build linux && (amd64 || arm64)

package gvisor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// bootFile stands beside a bundle's config.json.
const bootFile = "boot.json"

// bootView is what a sandbox is told about the machine. gVisor takes it from
// the control group that it made itself, and ours is made by us; so the values
// are put into the sentry's arguments when it starts.
type bootView struct {
	CPUs        int   `json:"cpus"`
	MemoryBytes int64 `json:"memory_bytes"`
}

func (v bootView) write(bundle string) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeOpen(filepath.Join(bundle, bootFile), raw)
}

// bootArgs adds the view to the arguments of "boot". Without the file, or in
// the sentry's second life where the host's files are out of reach and the
// arguments are complete already, they stay as they are: the view is a
// courtesy to programs that count processors, never a limit.
func bootArgs(args []string) []string {
	boot := slices.Index(args, "boot")
	if boot < 0 {
		return args
	}
	bundle := ""
	for _, arg := range args[boot:] {
		if value, ok := strings.CutPrefix(arg, "--bundle="); ok {
			bundle = value
		}
	}
	raw, err := os.ReadFile(filepath.Join(bundle, bootFile)) //nolint:gosec // gVisor named the bundle
	if err != nil {
		return args
	}
	var view bootView
	if err := json.Unmarshal(raw, &view); err != nil || view.CPUs < 1 || view.MemoryBytes < 1 {
		return args
	}
	return view.apply(args, boot)
}

func (v bootView) apply(args []string, boot int) []string {
	out := slices.Clone(args[:boot+1])
	out = append(out, "--cpu-num="+strconv.Itoa(v.CPUs))
	rest := args[boot+1:]
	for i := 0; i < len(rest); i++ {
		out = append(out, rest[i])
		if rest[i] == "--total-memory" && i+1 < len(rest) {
			i++
			out = append(out, strconv.FormatInt(v.MemoryBytes, 10))
		}
	}
	return out
}
