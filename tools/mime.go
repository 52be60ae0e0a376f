package tools

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	textMIME  = "text/plain"
	bytesMIME = "application/octet-stream"
)

// neutralMIME gives the type under which a file's contents go out as a
// resource: one of few that no host runs, and only where the contents are what
// the name says. Every other text is plain text, everything else is bytes.
func neutralMIME(named string, data []byte, isText bool) string {
	if isText {
		if slices.Contains([]string{
			"text/csv", "text/tab-separated-values", "text/markdown", "text/x-python",
			"application/json", "application/x-ndjson", "application/yaml",
		}, named) {
			return named
		}
		return textMIME
	}
	found, _, _ := strings.Cut(http.DetectContentType(data), ";")
	switch {
	case slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}, found):
		return found
	case found == "application/zip" && named == "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		named == "application/vnd.apache.parquet" && bytes.HasPrefix(data, []byte("PAR1")):
		return named
	case found == "application/zip":
		return found
	case found == "application/x-gzip":
		return "application/gzip"
	}
	return bytesMIME
}

// safeMIME gives the type under which a sandbox's file may leave: what a
// browser would run (HTML, SVG, XML, scripts) goes as plain text, and a type
// that is none goes as bytes.
func safeMIME(mime string) string {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	mime = strings.TrimSpace(mime)
	major, minor, ok := strings.Cut(mime, "/")
	if !ok || major == "" || minor == "" || len(mime) > 100 || strings.ContainsFunc(mime, notInMIME) {
		return bytesMIME
	}
	active := strings.Contains(minor, "html") || strings.Contains(minor, "xml") ||
		strings.Contains(minor, "script") || strings.Contains(minor, "xsl")
	if active && !strings.HasPrefix(minor, "vnd.") {
		return textMIME
	}
	return mime
}

func notInMIME(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("/.+-_", r)
}

// asText gives data as text when it is text: valid UTF-8 but for a character
// that was cut at the end, and no NUL. used is how many bytes it took.
func asText(data []byte, more bool) (text string, used int, ok bool) {
	used = len(data)
	if more {
		for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
			if c := data[len(data)-i]; utf8.RuneStart(c) {
				if !utf8.FullRune(data[len(data)-i:]) {
					used -= i
				}
				break
			}
		}
	}
	text = string(data[:used])
	return text, used, utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}
