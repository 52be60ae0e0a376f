package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// printable makes text safe for a terminal: what comes from a sandbox may hold
// sequences that a terminal obeys.
func printable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\t", "    ")
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// wrap breaks text into lines of at most width characters: between words
// where that is possible, and with the indentation of the line kept.
func wrap(text string, width int) []string {
	width = max(width, 20)
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, wrapLine(strings.TrimRight(line, " "), width)...)
	}
	return lines
}

func wrapLine(line string, width int) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	if len(indent) > width/2 {
		indent = ""
	}
	var lines []string
	for utf8.RuneCountInString(line) > width {
		head, tail := splitAt(line, width, len(indent))
		lines = append(lines, head)
		line = indent + tail
	}
	return append(lines, line)
}

// splitAt cuts line after at most width characters, at the last space behind
// the first from bytes, or within a word when there is none.
func splitAt(line string, width, from int) (head, tail string) {
	end := len(line)
	count := 0
	for i := range line {
		if count == width {
			end = i
			break
		}
		count++
	}
	if line[end] == ' ' {
		return strings.TrimRight(line[:end], " "), strings.TrimLeft(line[end:], " ")
	}
	if space := strings.LastIndexByte(line[from:end], ' '); space > 0 {
		return strings.TrimRight(line[:from+space], " "), line[from+space+1:]
	}
	return line[:end], line[end:]
}

// columns sets a title, a tool and a time in a row of the given width.
func columns(title, tool, took string, width int) string {
	const toolWidth, timeWidth = 14, 9
	room := width - toolWidth - timeWidth
	if runes := []rune(title); len(runes) > room-1 {
		title = string(runes[:room-2]) + "…"
	}
	return fmt.Sprintf("%-*s%-*s%*s", room, title, toolWidth, tool, timeWidth, took)
}

// seconds is a time as a person reads it.
func seconds(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.4f s", d.Seconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func sortedKeys(args map[string]any) []string { return slices.Sorted(maps.Keys(args)) }
