package serve

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
)

// A body is read as a whole whatever its length and whether it is told, and no
// further than a byte beyond the limit.
func TestReadParts(t *testing.T) {
	const limit = 3<<20 + 5
	for _, size := range []int{0, 1, firstPart - 1, firstPart, firstPart + 1, 3 * firstPart, maxPart, limit - 1, limit, limit + 1, 2 * limit} {
		text := strings.Repeat("0123456789", size/10+1)[:size]
		for _, told := range []int64{-1, int64(size)} {
			source := strings.NewReader(text)
			parts, read, err := readParts(iotest.HalfReader(source), told, limit)
			want := min(size, limit+1)
			if err != nil || read != int64(want) || string(bytes.Join(parts, nil)) != text[:want] || size-source.Len() != want {
				t.Errorf("size %d, told %d: %d bytes read, %d taken, error %v; want %d", size, told, read, size-source.Len(), err, want)
			}
		}
	}
	if _, _, err := readParts(iotest.TimeoutReader(strings.NewReader(strings.Repeat("x", 2000))), -1, limit); err == nil {
		t.Error("a body that fails is taken for whole")
	}
}
