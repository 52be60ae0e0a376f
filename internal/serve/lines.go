package serve

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errTooLong: a line exceeded the bound; it has been skipped to its end.
var errTooLong = errors.New("the line is too long")

// A lineReader reads lines of bounded length.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, maxLine int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: maxLine}
}

// next returns the next line without its end. The slice is the caller's. At
// the end of the input it returns what was left, and io.EOF. Of a line that is
// too long it returns the message's id, if it has one, and errTooLong.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	var skipped *idScanner
	for {
		part, err := l.r.ReadSlice('\n')
		if skipped == nil && len(line)+len(bytes.TrimSuffix(part, []byte{'\n'})) > l.max {
			skipped = &idScanner{}
			skipped.scan(line)
			line = nil
		}
		if skipped != nil {
			skipped.scan(part)
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return bytes.TrimSpace(line), err
		case skipped != nil:
			return skipped.id(), errTooLong
		}
		return bytes.TrimSpace(line), nil
	}
}
