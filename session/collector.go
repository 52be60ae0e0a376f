package session

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxDisplays     = 20
	maxDisplayBytes = 8 << 20  // one object
	maxDisplayTotal = 24 << 20 // all objects of one cell
)

// A collector keeps what a running cell sends, within bounds, whatever the
// sandbox sends. It implements pyagent.Sink.
type collector struct {
	limit int // bytes of each stream

	mu       sync.Mutex
	stdout   []byte     // guarded by mu
	stderr   []byte     // guarded by mu
	displays []*growing // guarded by mu
	total    int        // bytes of all displays; guarded by mu
	dropped  int        // displays left out; guarded by mu
	bytes    int64      // output so far, as the supervisor counts; guarded by mu
	last     string     // guarded by mu
}

// A growing display is one whose chunks are still coming.
type growing struct {
	Display
	index int
	whole bool
}

func newCollector(limit int64) *collector { return &collector{limit: int(limit)} }

// Stream implements pyagent.Sink.
func (c *collector) Stream(name string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := &c.stdout
	if name == "stderr" {
		kept = &c.stderr
	}
	c.bytes += int64(len(data))
	room := c.limit - len(*kept)
	*kept = append(*kept, data[:min(len(data), max(room, 0))]...)
	c.last = lastLine(data, c.last)
}

// Progress implements pyagent.Sink.
func (c *collector) Progress(bytes int64, last string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes, c.last = max(bytes, c.bytes), cut(last, 200)
}

// Display implements pyagent.Sink.
func (c *collector) Display(mime string, index int, last bool, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.display(mime, index)
	if d == nil {
		return
	}
	if len(d.Data)+len(data) > maxDisplayBytes || c.total+len(data) > maxDisplayTotal {
		c.drop(d)
		return
	}
	c.total += len(data)
	d.Data = append(d.Data, data...)
	d.whole = last
}

// display finds the object that is still coming or begins it; nil when there
// are too many. The caller holds mu.
func (c *collector) display(mime string, index int) *growing {
	if n := len(c.displays); n > 0 && c.displays[n-1].index == index && !c.displays[n-1].whole {
		return c.displays[n-1]
	}
	if len(c.displays) >= maxDisplays {
		c.dropped++
		return nil
	}
	d := &growing{Display: Display{MIME: cut(mime, 100)}, index: index}
	c.displays = append(c.displays, d)
	return d
}

// drop forgets an object that is too large. The caller holds mu.
func (c *collector) drop(d *growing) {
	c.total -= len(d.Data)
	d.Data, d.whole, d.MIME = nil, false, ""
	c.dropped++
}

// shown gives the whole objects and how many were left out.
func (c *collector) shown() ([]Display, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Display
	for _, d := range c.displays {
		if d.whole {
			out = append(out, d.Display)
		}
	}
	return out, c.dropped
}

// soFar gives what has come of both streams.
func (c *collector) soFar() (stdout, stderr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return valid(c.stdout), valid(c.stderr)
}

func (c *collector) heads() (stdout, stderr []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stdout, c.stderr
}

func (c *collector) progress(elapsed time.Duration) Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Progress{Elapsed: elapsed, Bytes: c.bytes, Last: c.last}
}

// lastLine gives the last line of data that holds something.
func lastLine(data []byte, before string) string {
	text := strings.TrimRight(string(data[max(0, len(data)-400):]), " \t\r\n")
	if text == "" {
		return before
	}
	return cut(valid([]byte(text[strings.LastIndexAny(text, "\r\n")+1:])), 200)
}

// valid makes bytes a valid string.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// cut shortens s to at most n bytes at a character's border.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
