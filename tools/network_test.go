package tools

import (
	"strings"
	"testing"
)

func TestDescriptionTellsTheNetwork(t *testing.T) {
	for on, want := range map[bool]string{true: "The network is reachable; pip install works", false: "No network, so pip install cannot work."} {
		for _, tool := range toolsOf(t, All(&fakeSessions{}, Options{Network: on})) {
			if tool.Name == "python_run" && !strings.Contains(tool.Description, want) {
				t.Errorf("network %t: %s", on, tool.Description)
			}
		}
	}
}
