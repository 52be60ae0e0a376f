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
	switch {
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // direction overrides and isolates
	case r == 0x200b, r == 0x200e, r == 0x200f, r == 0x061c: // zero-width space, direction marks
	case r >= 0x2060 && r <= 0x2064, r >= 0x206a && r <= 0x206f: // invisible operators, deprecated format characters
	case r == 0xfeff, r == 0x00ad, r == 0x180e, r >= 0xfff9 && r <= 0xfffb: // byte order mark, soft hyphen, annotations
	case r == 0x2028, r == 0x2029: // line and paragraph separators
	case r >= 0xe0000 && r <= 0xe007f: // tags
	case r >= 0xe0100 && r <= 0xe01ef: // supplementary variation selectors, which can carry a message
	default:
		return false
	}
	return true
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
	case ']', 'P', 'X', '^', '_': // strings, ended by BEL or ESC \
		limit := min(len(text), maxSequence)
		for i := 2; i < limit; i++ {
			if text[i] == '\a' {
				return i + 1
			}
			if text[i] == '\x1b' && i+1 < limit && text[i+1] == '\\' {
				return i + 2
			}
			if text[i] == '\n' {
				break
			}
		}
		return 2
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
