package config

import (
	"strings"
	"testing"
)

// A variable that is misspelt stops the start; one that only shares the prefix
// is told, and no more.
func TestUnknownVariables(t *testing.T) {
	tests := []struct {
		name string
		near string // what the fault proposes; "" means no fault
		told bool   // as a stranger
	}{
		{"BIOCAGE_SANDBOX_MEMROY", "BIOCAGE_SANDBOX_MEMORY", false},
		{"BIOCAGE_SANDBOX_NETWOK", "BIOCAGE_SANDBOX_NETWORK", false},
		{"BIOCAGE_MEMORY", "BIOCAGE_SANDBOX_MEMORY", false},
		{"BIOCAGE_TIMEOUT", "BIOCAGE_RUN_TIMEOUT", false},
		{"BIOCAGE_ENGIN", "BIOCAGE_ENGINE", false},
		{"BIOCAGE_CONFG", "BIOCAGE_CONFIG", false},
		{"BIOCAGE_SERVICE_HOST", "", true},
		{"BIOCAGE_PORT", "", true},
		{"BIOCAGE_PORT_8765_TCP_ADDR", "", true},
		{"BIOCAGE_SANDBOX_MEMORY", "", false},
		{"BIOCAGE_CONFIG", "", false},
		{"BIOCAGE_TEST_BINARY", "", false},
		{"PATH", "", false},
	}
	for _, tt := range tests {
		var fault string
		if _, err := Load(Source{Variables: []string{tt.name}}); err != nil {
			fault = err.Error()
		}
		want := ""
		if tt.near != "" {
			want = tt.name + ": unknown variable; did you mean " + tt.near + "?"
		}
		if (fault == "") != (want == "") || !strings.Contains(fault, want) {
			t.Errorf("Load with %s: %q, want %q", tt.name, fault, want)
		}
		if told := Strangers([]string{tt.name}); (len(told) == 1) != tt.told {
			t.Errorf("Strangers(%s) = %q", tt.name, told)
		}
	}
}
