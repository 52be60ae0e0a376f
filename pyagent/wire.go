package pyagent

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds of PROTOCOL.md. The sandbox's are enforced on reading; our own are
// checked before writing, so that a fault shows here and not over there.
const (
	maxHeader   = 64 << 10
	maxBodyIn   = 1 << 20
	maxBodyOut  = 16 << 20
	maxDepth    = 32
	prefixBytes = 8
)

// ErrProtocol says that the peer sent what the protocol does not allow.
var ErrProtocol = errors.New("agent protocol broken")

// A frame is one decoded frame; its slices are only valid until the next read.
type frame struct {
	header []byte
	body   []byte
}

// A frameReader reads frames and keeps its buffers between them.
type frameReader struct {
	r      *bufio.Reader
	header []byte
	body   []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next reads one frame. io.EOF means a clean end between frames.
func (f *frameReader) next() (frame, error) {
	var prefix [prefixBytes]byte
	if _, err := io.ReadFull(f.r, prefix[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return frame{}, fmt.Errorf("%w: the stream ended within a frame", ErrProtocol)
		}
		return frame{}, err
	}
	h, b := binary.BigEndian.Uint32(prefix[:4]), binary.BigEndian.Uint32(prefix[4:])
	if h < 2 || h > maxHeader || b > maxBodyIn {
		return frame{}, fmt.Errorf("%w: frame of %d + %d bytes", ErrProtocol, h, b)
	}
	f.header = resize(f.header, int(h))
	f.body = resize(f.body, int(b))
	for _, part := range [][]byte{f.header, f.body} {
		if _, err := io.ReadFull(f.r, part); err != nil {
			return frame{}, fmt.Errorf("%w: the stream ended within a frame", ErrProtocol)
		}
	}
	if depth(f.header) > maxDepth {
		return frame{}, fmt.Errorf("%w: header nested deeper than %d", ErrProtocol, maxDepth)
	}
	return frame{header: f.header, body: f.body}, nil
}

func resize(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// depth counts how deep brackets nest outside of strings, which bounds what a
// JSON decoder would recurse into, without decoding.
func depth(b []byte) int {
	deepest, now := 0, 0
	inString, escaped := false, false
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// smallBody is the size up to which a body is copied behind its header so
// that the frame leaves in one write.
const smallBody = 64 << 10

// appendFrame encodes a frame's prefix and header into buf, and its body too
// when that is small; rest is what must be written after it.
func appendFrame(buf []byte, header any, body []byte) (out, rest []byte, err error) {
	h, err := json.Marshal(header)
	if err != nil {
		return nil, nil, fmt.Errorf("encode header: %w", err)
	}
	if len(h) > maxHeader || len(body) > maxBodyOut {
		return nil, nil, fmt.Errorf("frame of %d + %d bytes is over the protocol's bounds", len(h), len(body))
	}
	buf = binary.BigEndian.AppendUint32(buf[:0], uint32(len(h)))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)))
	buf = append(buf, h...)
	if len(body) <= smallBody {
		return append(buf, body...), nil, nil
	}
	return buf, body, nil
}
