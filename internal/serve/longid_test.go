package serve

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// Whoever sent a message that is too long is told so under its id, wherever
// the id stands in it.
func TestIDOfLongLine(t *testing.T) {
	long := strings.Repeat(`{\"id\":9},\\`, 20_000)
	tests := []struct{ name, line, want string }{
		{"first", `{"jsonrpc":"2.0","id":7,"params":{"id":8,"a":["` + long + `"]}}`, `7`},
		{"last", `{"params":{"a":"` + long + `","id":8},"jsonrpc":"2.0", "id" : "x\"y" }`, `"x\"y"`},
		{"a notification", `{"params":{"a":"` + long + `","id":8}}`, ``},
		{"null", `{"id":null,"params":"` + long + `"}`, ``},
		{"an object", `{"id":{"id":3},"params":"` + long + `"}`, ``},
		{"too long itself", `{"id":"` + strings.Repeat("i", 200_000) + `"}`, ``},
		{"a batch", `[{"id":3,"params":"` + long + `"}]`, ``},
		{"cut off", `{"id":3,"params":"` + long, ``},
		{"garbage", strings.Repeat(`]}"\\`, 50_000), ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := newLineReader(strings.NewReader(tt.line+"\n{}\n"), 100_000)
			got, err := lines.next()
			if !errors.Is(err, errTooLong) || string(got) != tt.want {
				t.Errorf("next: %.100q, %v; want %q", got, err, tt.want)
			}
			if got, err := lines.next(); err != nil || string(got) != "{}" {
				t.Errorf("the line behind it: %.100q, %v", got, err)
			}
		})
	}
}

// The scanner agrees with the parser, however the message is cut in pieces.
func FuzzIDScanner(f *testing.F) {
	f.Add(`{"id":5,"a":{"id":6}}`, 3)
	f.Add(`{"a":"\\\"","id":"b"}`, 1)
	f.Fuzz(func(t *testing.T, line string, piece int) {
		var m struct {
			ID json.RawMessage `json:"id"`
		}
		if json.Unmarshal([]byte(line), &m) != nil || !isID(m.ID) || strings.Contains(line, `\u00`) || strings.Contains(strings.ToLower(line), `"id":`) && !strings.Contains(line, `"id":`) {
			return
		}
		var s idScanner
		for rest := []byte(line); len(rest) > 0; {
			n := min(max(piece, 1), len(rest))
			s.scan(rest[:n])
			rest = rest[n:]
		}
		if got := s.id(); len(m.ID) > 0 && len(m.ID) < maxLongID && string(got) != string(m.ID) {
			t.Errorf("%q: id %q, want %q", line, got, m.ID)
		}
	})
}
