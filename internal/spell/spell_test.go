package spell

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"serve", "run", "env", "doctor", "version", "timeout_seconds"}
	tests := []struct{ word, want string }{
		{"srve", "serve"},
		{"DOCTR", "doctor"},
		{"vresion", "version"},
		{"timeout", "timeout_seconds"},
		{"seconds", "timeout_seconds"},
		{"environment", "env"},
		{"zzzzzz", ""},
		{"", ""},
		{strings.Repeat("r", 1000), ""},
	}
	for _, tt := range tests {
		if got := Nearest(tt.word, known); got != tt.want {
			t.Errorf("Nearest(%.20q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}
