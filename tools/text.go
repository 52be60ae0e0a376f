package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// shorten cuts text to at most limit bytes, at a character's end, and shows
// that it did.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return cutEnd(text, limit-len("…")) + "…"
}

// cutEnd gives the longest start of text that has at most limit bytes and
// whole characters.
func cutEnd(text string, limit int) string {
	limit = min(max(limit, 0), len(text))
	for limit > 0 && limit < len(text) && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// cutStart is cutEnd from the other side.
func cutStart(text string, limit int) string {
	start := max(len(text)-max(limit, 0), 0)
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}

// cutMiddle keeps two thirds of limit at the head and one at the tail, at line
// ends where they are near, and says what is missing and where the whole is.
func cutMiddle(text string, limit int, whole string) string {
	if len(text) <= limit {
		return text
	}
	head, tail := cutEnd(text, limit*2/3), cutStart(text, limit/3)
	if i := strings.LastIndexByte(head, '\n'); i > len(head)*3/4 {
		head = head[:i]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/4 {
		tail = tail[i+1:]
	}
	where := ""
	if whole != "" {
		where = "; read the whole with file_read path=" + whole
	}
	return fmt.Sprintf("%s\n[... %d bytes left out%s ...]\n%s", head, len(text)-len(head)-len(tail), where, tail)
}

// oneLine gives the text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// bytesText is a number of bytes for a reader.
func bytesText(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1000)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1_000_000)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1_000_000_000)
}

// seconds is a span of time for a reader.
func seconds(s float64) string {
	switch {
	case s < 0.01:
		return "under 0.01 s"
	case s < 10:
		return fmt.Sprintf("%.2f s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}

// join puts a message and a hint together as sentences.
func join(parts ...string) string {
	var out []string
	for _, part := range parts {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, " ")
}
