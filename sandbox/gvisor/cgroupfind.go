//go:build linux && (amd64 || arm64)

package gvisor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupMount is one line of /proc/self/mountinfo.
type cgroupMount struct {
	point       string
	root        string // what of the hierarchy is mounted
	v2          bool
	controllers []string // version 1
}

// findV1 finds the directories below which groups can be made: this
// process's own groups, so that limits set from outside hold for sandboxes too.
func findV1() *cgroupTree {
	tree := &cgroupTree{dirs: map[string]string{}}
	own := ownCgroups()
	for _, m := range cgroupMounts() {
		for _, controller := range m.controllers {
			if slices.Contains(wantedControllers(), controller) {
				tree.dirs[controller] = m.resolve(own[controller])
			}
		}
	}
	if len(tree.dirs) == 0 {
		return nil
	}
	return tree
}

// findV2 finds a group that may have children with limits. That is never one
// with processes in it, so it is not our own but the one above, or the root.
func findV2() *cgroupTree {
	for _, m := range cgroupMounts() {
		if !m.v2 {
			continue
		}
		own := m.resolve(ownCgroups()[""])
		for _, dir := range []string{filepath.Dir(own), m.point} {
			raw, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
			if err != nil || !slices.Contains(strings.Fields(string(raw)), "memory") {
				continue
			}
			tree := &cgroupTree{v2: true, dirs: map[string]string{}}
			for controller := range strings.FieldsSeq(string(raw)) {
				tree.dirs[controller] = dir
			}
			return tree
		}
	}
	return nil
}

// resolve finds a group's directory; a container sees its own group as root.
func (m cgroupMount) resolve(group string) string {
	inside, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if ok {
		dir := filepath.Join(m.point, inside)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return m.point
}

// ownCgroups maps each controller ("" for version 2) to this process's group.
func ownCgroups() map[string]string {
	own := map[string]string{}
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return own
	}
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			own[controller] = parts[2]
		}
	}
	return own
}

func cgroupMounts() []cgroupMount {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var mounts []cgroupMount
	for line := range strings.Lines(string(raw)) {
		left, right, found := strings.Cut(line, " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if !found || len(before) < 5 || len(after) < 3 {
			continue
		}
		m := cgroupMount{root: before[3], point: before[4]}
		switch after[0] {
		case "cgroup2":
			m.v2 = true
		case "cgroup":
			m.controllers = strings.Split(after[2], ",")
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts
}
