package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sanitize makes text from a sandbox safe to show: terminal sequences and
// control characters are dropped, a carriage return becomes a new line, and
// characters that hide or reorder text are written out as \u{...}. The outcome
// is valid UTF-8, and sanitizing it again changes nothing.
func Sanitize(text string) string {
	if isClean(text) {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\x1b':
			i += escapeLen(text[i:])
			continue
		case r == '\u009b': // the one-character form of ESC [
			i += size + controlLen(text[i+size:])
			continue
		case r == '\r':
			if !strings.HasPrefix(text[i+size:], "\n") {
				out.WriteByte('\n')
			}
		case isControl(r):
		case isHidden(r):
			fmt.Fprintf(&out, `\u{%X}`, r)
		default:
			out.WriteRune(r) // writes U+FFFD for an invalid byte
		}
		i += size
	}
	return out.String()
}

func isClean(text string) bool {
	for i, r := range text {
		if r == '\r' || isControl(r) || isHidden(r) {
			return false
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return false
			}
		}
	}
	return true
}

// isControl: C0 and C1 but for new line and tab, and DEL.
func isControl(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f
}

// isHidden: what a reader does not see but a model reads, or what makes text
// look different from what it is. Joiners and emoji's variation selectors,
// which real text needs, are left alone.
func isHidden(r rune) bool {
	return r >= 0xad && (isDirection(r) || isInvisible(r) || isTag(r))
}

// isDirection: marks, overrides and isolates of the writing direction.
func isDirection(r rune) bool {
	return r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// isInvisible: soft hyphen, zero-width space, word joiner and its like, byte
// order mark, line separators, annotations.
func isInvisible(r rune) bool {
	switch r {
	case 0x00ad, 0x180e, 0x200b, 0x2028, 0x2029, 0xfeff, 0xfff9, 0xfffa, 0xfffb:
		return true
	}
	return r >= 0x2060 && r <= 0x2064 || r >= 0x206a && r <= 0x206f
}

// isTag: tags and supplementary variation selectors, which can carry a message.
func isTag(r rune) bool {
	return r >= 0xe0000 && r <= 0xe007f || r >= 0xe0100 && r <= 0xe01ef
}

// maxSequence bounds how far a terminal sequence is looked for: text behind a
// sequence that never ends must not vanish.
const maxSequence = 4096

// escapeLen is the length of the terminal sequence that text begins with.
func escapeLen(text string) int {
	if len(text) < 2 {
		return 1
	}
	switch text[1] {
	case '[':
		return 2 + controlLen(text[2:])
	case ']', 'P', 'X', '^', '_':
		return 2 + stringLen(text[2:])
	}
	i := 1
	for i < len(text) && i < 8 && text[i] >= 0x20 && text[i] <= 0x2f {
		i++
	}
	if i < len(text) && text[i] >= 0x30 && text[i] <= 0x7e {
		return i + 1
	}
	return 1
}

// stringLen is the length of a control string with its end, which is BEL or
// ESC \ on the same line; without one it is 0.
func stringLen(text string) int {
	text = text[:min(len(text), maxSequence)]
	line, _, _ := strings.Cut(text, "\n")
	end := strings.IndexByte(line, '\a')
	if i := strings.Index(line, "\x1b\\"); i >= 0 && (end < 0 || i < end) {
		return i + 2
	}
	return end + 1
}

// controlLen is the length of a control sequence's parameters and final byte.
func controlLen(text string) int {
	i := 0
	for i < len(text) && i < 256 && text[i] >= 0x20 && text[i] <= 0x3f {
		i++
	}
	if i < len(text) && text[i] >= 0x40 && text[i] <= 0x7e {
		return i + 1
	}
	return 0
}
