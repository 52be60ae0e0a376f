package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWrap(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"empty":       {"", []string{""}},
		"short":       {"one\ntwo", []string{"one", "two"}},
		"exact":       {strings.Repeat("x", 20), []string{strings.Repeat("x", 20)}},
		"words":       {"the quick brown fox jumps over", []string{"the quick brown fox", "jumps over"}},
		"space at 20": {"aaaaaaaaaa bbbbbbbbb cc", []string{"aaaaaaaaaa bbbbbbbbb", "cc"}},
		"long word":   {strings.Repeat("x", 45), []string{strings.Repeat("x", 20), strings.Repeat("x", 20), "xxxxx"}},
		"indentation": {"    for a in range(10): b", []string{"    for a in", "    range(10): b"}},
		"deep indentation": {
			strings.Repeat(" ", 15) + "aaaa bbbb",
			[]string{strings.Repeat(" ", 15) + "aaaa", "bbbb"},
		},
		"wide letters": {strings.Repeat("é", 25), []string{strings.Repeat("é", 20), "ééééé"}},
		"end spaces":   {"a   \nb", []string{"a", "b"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, wrap(tc.text, 20)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever the text is, wrap ends, keeps every letter and obeys the width.
func FuzzWrap(f *testing.F) {
	for _, seed := range []string{"", "a b", "    deep " + strings.Repeat("x", 50), "日本語 テキスト", " \x00 ", strings.Repeat(" ", 60)} {
		f.Add(seed, 30)
	}
	f.Fuzz(func(t *testing.T, text string, width int) {
		text, width = printable(text), 20+(width&63)
		lines := wrap(text, width)
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("line %q has %d characters, not at most %d", line, n, width)
			}
		}
		letters := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got, want := letters(strings.Join(lines, "\n")), letters(text); got != want {
			t.Errorf("wrapped %q holds %q", want, got)
		}
	})
}

func TestPrintable(t *testing.T) {
	got := printable("a\tb\x1b[31mred\x07 é\xff\nnext\r\u202e")
	if diff := cmp.Diff("a    b\uFFFD[31mred\uFFFD é\uFFFD\nnext\uFFFD\uFFFD", got); diff != "" {
		t.Error(diff)
	}
}

func TestColumns(t *testing.T) {
	tests := map[string]struct{ title, want string }{
		"short": {"Load", "Load             python_run       1.00 s"},
		"long":  {"A title that is too long", "A title that is… python_run       1.00 s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, columns(tc.title, "python_run", "1.00 s", 40)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		250 * time.Microsecond: "0.0003 s", 12 * time.Millisecond: "0.01 s", 61 * time.Second: "61.00 s",
	} {
		if got := seconds(d); got != want {
			t.Errorf("seconds(%v) = %q, not %q", d, got, want)
		}
	}
}
