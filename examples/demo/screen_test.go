package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
)

func TestScreen(t *testing.T) {
	tests := map[string]struct {
		show func(*screen)
		want []string
	}{
		"hello": {
			show: func(s *screen) {
				s.hello(mcp.Implementation{Name: "biocage", Version: "1.2"}, 20*time.Millisecond, []string{"a", "b"})
			},
			want: []string{"biocage 1.2 answered initialize in 0.02 s.", "  Tools: a, b"},
		},
		"call": {
			show: func(s *screen) { s.call(3, code("Add", "x = 1\nx + 1")) },
			want: []string{"", " 3  Add                                 python_run", "  > x = 1", "  > x + 1"},
		},
		"call with arguments": {
			show: func(s *screen) {
				s.call(12, step{title: "Read", tool: "file_read", args: map[string]any{"path": "a.csv", "limit": 3}})
			},
			want: []string{"", "12  Read                                 file_read", "  > limit: 3", "  > path: a.csv"},
		},
		"answer": {
			show: func(s *screen) {
				s.answer(answer{
					text:   "done\n",
					images: []picture{{mime: "image/png", data: []byte("12345"), width: 4, height: 3}},
					links:  []mcp.ResourceLink{{Name: "a.csv", URI: "sandbox://s/a.csv"}},
					took:   time.Second,
				})
			},
			want: []string{"  │ done", "  │ [image/png, 4 x 3, 5 bytes]", "  │ [link to a.csv: sandbox://s/a.csv]", "  1.00 s"},
		},
		"long answer": {
			show: func(s *screen) { s.block("│ ", "", strings.Repeat("line\n", maxLines+2)+"end") },
			want: append(repeat("  │ line", maxLines-1), "  │ … 4 more lines"),
		},
		"table": {
			show: func(s *screen) {
				s.table([]row{{"Load", "python_run", time.Second, true}, {"Fail", "file_read", time.Second, false}})
			},
			want: []string{
				"", "Times",
				"  ✓ Load                   python_run       1.00 s",
				"  ✗ Fail                   file_read        1.00 s",
				"    Together                                2.00 s",
			},
		},
		"no calls": {show: func(s *screen) { s.table(nil) }, want: nil},
		"fault": {
			show: func(s *screen) { s.fault(errors.New("no")) },
			want: []string{"  ✗ This differs from what it must be: no"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tc.show(newScreen(&out, style{width: 50}))
			var got []string
			if out.Len() > 0 {
				got = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func repeat(line string, times int) []string {
	lines := make([]string, times)
	for i := range lines {
		lines[i] = line
	}
	return lines
}

// Colours are the screen's own, never the sandbox's.
func TestColours(t *testing.T) {
	var out strings.Builder
	newScreen(&out, style{width: 80, colour: true}).answer(answer{text: "\x1b[2Jgone", failed: true})
	if got := out.String(); !strings.Contains(got, "\x1b[31m\uFFFD[2Jgone\x1b[0m") {
		t.Errorf("printed %q", got)
	}
}
