package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// Strings of the corpus are handled as JSON text, not decoded: decoding would
// replace a lone surrogate, which a case may want to send.

// joinParts makes one JSON string of {text, repeat} parts.
func joinParts(raw json.RawMessage) (json.RawMessage, error) {
	var parts []struct {
		Text   json.RawMessage `json:"text"`
		Repeat *int            `json:"repeat"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("parts: %w", err)
	}
	var out bytes.Buffer
	out.WriteByte('"')
	for _, part := range parts {
		inner, err := unquoted(part.Text)
		if err != nil {
			return nil, err
		}
		times := 1
		if part.Repeat != nil {
			times = *part.Repeat
		}
		out.WriteString(strings.Repeat(inner, times))
	}
	out.WriteByte('"')
	return out.Bytes(), nil
}

func unquoted(raw json.RawMessage) (string, error) {
	text := strings.TrimSpace(string(raw))
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", fmt.Errorf("not a JSON string: %.40s", text)
	}
	return text[1 : len(text)-1], nil
}

// plainJSON writes the characters beyond ASCII as they are, where the corpus
// has \uXXXX. Lone surrogates stay escapes: they have no other form.
func plainJSON(text []byte) []byte {
	return rewriteEscapes(text, func(units []uint16, escapes []byte) []byte {
		if len(units) == 2 {
			return utf8.AppendRune(nil, utf16.DecodeRune(rune(units[0]), rune(units[1])))
		}
		if units[0] < 0x80 || utf16.IsSurrogate(rune(units[0])) {
			return escapes
		}
		return utf8.AppendRune(nil, rune(units[0]))
	})
}

// loneSurrogate finds an escape that is half of a pair.
func loneSurrogate(text []byte) (found bool) {
	rewriteEscapes(text, func(units []uint16, escapes []byte) []byte {
		found = found || len(units) == 1 && utf16.IsSurrogate(rune(units[0]))
		return escapes
	})
	return found
}

// rewriteEscapes replaces each \uXXXX, a surrogate pair as one.
func rewriteEscapes(text []byte, replace func(units []uint16, escapes []byte) []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		first, ok := escapeAt(text, i)
		switch {
		case ok:
			units := []uint16{first}
			second, also := escapeAt(text, i+6)
			if also && utf16.DecodeRune(rune(first), rune(second)) != utf8.RuneError {
				units = append(units, second)
			}
			end := i + 6*len(units)
			out = append(out, replace(units, text[i:end])...)
			i = end
		case text[i] == '\\' && i+1 < len(text):
			out = append(out, text[i], text[i+1])
			i += 2
		default:
			out = append(out, text[i])
			i++
		}
	}
	return out
}

func escapeAt(text []byte, i int) (uint16, bool) {
	if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
	return uint16(unit), err == nil
}

// strayUTF8 tells what makes a raw answer no valid UTF-8 JSON.
func strayUTF8(line []byte) error {
	switch {
	case !utf8.Valid(line):
		return fmt.Errorf("the answer is not valid UTF-8")
	case !json.Valid(line):
		return fmt.Errorf("the answer is not valid JSON")
	case loneSurrogate(line):
		return fmt.Errorf("the answer has a lone surrogate")
	}
	return nil
}

func TestRawText(t *testing.T) {
	joined, err := joinParts(json.RawMessage(`[{"text":"a\ud800"},{"text":"\\\"é","repeat":2},{"text":"x","repeat":0}]`))
	if want := `"a\ud800\\\"é\\\"é"`; err != nil || string(joined) != want {
		t.Errorf("joinParts gives %s (%v), want %s", joined, err, want)
	}
	for _, tt := range []struct{ in, want string }{
		{`"\u00e9 \ud83c\udf78 tea"`, `"é 🍸 tea"`},
		{`"x\ud800y"`, `"x\ud800y"`},
		{`"\ud83c\ud83c\udf78"`, `"\ud83c🍸"`},
		{`"\\u00e9 \u0041\u000a"`, `"\\u00e9 \u0041\u000a"`},
		{`"\\\u00e9"`, `"\\é"`},
	} {
		if got := string(plainJSON([]byte(tt.in))); got != tt.want {
			t.Errorf("plainJSON(%s) = %s, want %s", tt.in, got, tt.want)
		}
	}
	for text, want := range map[string]bool{
		`{"a":"\ud83c\udf78"}`: true, `{"a":"\ud800"}`: false, `{"a":"\\ud800"}`: true,
		"{\"a\":\"\xff\"}": false, `{"a":`: false,
	} {
		if err := strayUTF8([]byte(text)); (err == nil) != want {
			t.Errorf("strayUTF8(%q) = %v", text, err)
		}
	}
	if !slices.Equal(plainJSON(nil), []byte{}) {
		t.Error("nothing became something")
	}
}
