package tools

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSanitize(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "hello\tworld\n", "hello\tworld\n"},
		{"colours", "\x1b[31mred\x1b[0m \x1b[1;38;5;9mx\x1b[m", "red x"},
		{"title and link", "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"},
		{"an unfinished string keeps what follows", "\x1b]0;rest of the output", "0;rest of the output"},
		{"cursor and reset", "\x1b[2J\x1b[H\x1bcx\x1b(By", "xy"},
		{"C1 sequence", "\u009b31mred\u0085", "red"},
		{"lone escape", "a\x1b", "a"},
		{"carriage return", "10%\r20%\r\nend", "10%\n20%\nend"},
		{"hidden command", "rm -rf /\rls     ", "rm -rf /\nls     "},
		{"backspaces and bell", "a\bb\ac\x00d\x7fe", "abcde"},
		{"form feed and vertical tab", "a\fb\vc", "abc"},
		{"direction override", "\u202ecod.exe\u2066x", `\u{202E}cod.exe\u{2066}x`},
		{"tags", "a\U000e0069\U000e0067b", `a\u{E0069}\u{E0067}b`},
		{"zero width and mark", "a\u200bb\ufeffc", `a\u{200B}b\u{FEFF}c`},
		{"variation selectors that carry bytes", "x\U000e0101", `x\u{E0101}`},
		{"emoji and joiners stay", "👩‍🔬 ❤️ नमस्ते می\u200cخواهم", "👩‍🔬 ❤️ नमस्ते می\u200cخواهم"},
		{"invalid UTF-8", "a\xffb", "a\ufffdb"},
		{"replacement character stays", "a\ufffdb", "a\ufffdb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Sanitize(tt.in); got != tt.want {
				t.Errorf("Sanitize(%q) = %q, want %q", tt.in, got, tt.want)
			}
			checkSanitized(t, tt.in)
		})
	}
}

// checkSanitized proves the promises that hold for every text.
func checkSanitized(t *testing.T, in string) {
	t.Helper()
	got := Sanitize(in)
	if !utf8.ValidString(got) {
		t.Fatalf("Sanitize(%q) is not UTF-8: %q", in, got)
	}
	for _, r := range got {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f {
			t.Fatalf("Sanitize(%q) holds the control character %U", in, r)
		}
		if r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000 && r <= 0xe007f || r == 0xfeff {
			t.Fatalf("Sanitize(%q) holds the hidden character %U", in, r)
		}
	}
	if again := Sanitize(got); again != got {
		t.Fatalf("Sanitize is not idempotent: %q, then %q", got, again)
	}
	letters := func(s string) int { return strings.Count(s, "é") }
	if !strings.ContainsAny(in, "\x1b\u009b") && letters(got) != letters(in) {
		t.Fatalf("Sanitize(%q) lost text: %q", in, got)
	}
}

func TestSanitizeRandom(t *testing.T) {
	alphabet := []string{"\x1b", "[", "]", "3", "m", ";", "\x07", "\\", "\r", "\n", "é", "\u202e", "\U000e0041", "\u009b", "\xff", "\xe2", "P", "a", " ", "\x00"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b strings.Builder
		for range random.IntN(24) {
			b.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		checkSanitized(t, b.String())
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m")
	f.Add("\u202e\r\n\x1b]0;x\x07")
	f.Fuzz(func(t *testing.T, in string) { checkSanitized(t, in) })
}
