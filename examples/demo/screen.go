package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// defaultWidth is for output that is not a terminal's.
const defaultWidth = 100

// maxLines is how much of an answer is printed.
const maxLines = 30

// A style is what the terminal can do.
type style struct {
	width  int
	colour bool
}

// A screen prints the conversation. Its methods do not fail: when the reader
// of the output has gone, the demo goes on as a test.
type screen struct {
	out   io.Writer
	style style
}

func newScreen(out io.Writer, s style) *screen {
	s.width = min(max(s.width, 50), 120)
	return &screen{out: out, style: s}
}

// Terminal colours by meaning.
const (
	bold  = "1"
	faint = "2"
	red   = "31"
	green = "32"
	blue  = "34"
)

func (s *screen) paint(colour, text string) string {
	if !s.style.colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (s *screen) print(lines ...string) {
	for _, line := range lines {
		_, _ = fmt.Fprintln(s.out, line)
	}
}

// block prints text behind a gutter, wrapped.
func (s *screen) block(gutter, colour, text string) {
	lines := wrap(printable(text), s.style.width-len([]rune(gutter))-2)
	more := 0
	if len(lines) > maxLines {
		more = len(lines) - maxLines + 1
		lines = lines[:maxLines-1]
	}
	for _, line := range lines {
		s.print("  " + s.paint(faint, gutter) + s.paint(colour, line))
	}
	if more > 0 {
		s.print("  " + s.paint(faint, fmt.Sprintf("%s… %d more lines", gutter, more)))
	}
}

func (s *screen) hello(info mcp.Implementation, took time.Duration, tools []string) {
	s.print(s.paint(bold, fmt.Sprintf("%s %s", info.Name, info.Version)) + " answered initialize in " + seconds(took) + ".")
	s.block("", "", "Tools: "+strings.Join(tools, ", "))
}

// call prints what the model asks for.
func (s *screen) call(number int, step step) {
	head := fmt.Sprintf("%2d  %s", number, step.title)
	gap := max(s.style.width-len([]rune(head))-len(step.tool), 2)
	s.print("", s.paint(bold, head)+strings.Repeat(" ", gap)+s.paint(blue, step.tool))
	for _, name := range sortedKeys(step.args) {
		text := fmt.Sprint(step.args[name])
		if name == "code" {
			s.block("> ", "", text)
			continue
		}
		s.block("> ", "", name+": "+text)
	}
}

// answer prints what the model is told, and how long it took.
func (s *screen) answer(a answer) {
	colour := ""
	if a.failed {
		colour = red
	}
	s.block("│ ", colour, strings.TrimRight(a.text, "\n"))
	for _, pic := range a.images {
		s.block("│ ", blue, fmt.Sprintf("[%s, %d x %d, %d bytes]", pic.mime, pic.width, pic.height, len(pic.data)))
	}
	for _, link := range a.links {
		s.block("│ ", blue, fmt.Sprintf("[link to %s: %s]", link.Name, link.URI))
	}
	s.print("  " + s.paint(faint, seconds(a.took)))
}

func (s *screen) fault(err error) {
	s.block("✗ ", red, "This differs from what it must be: "+err.Error())
}

func (s *screen) note(text string) {
	s.print("")
	s.block("", "", text)
}

// table prints the times of all calls.
func (s *screen) table(rows []row) {
	if len(rows) == 0 {
		return
	}
	s.print("", s.paint(bold, "Times"))
	var total time.Duration
	for _, r := range rows {
		total += r.took
		mark, colour := "✓", green
		if !r.ok {
			mark, colour = "✗", red
		}
		s.print("  " + s.paint(colour, mark) + " " + columns(r.title, r.tool, seconds(r.took), s.style.width-4))
	}
	s.print("    " + columns("Together", "", seconds(total), s.style.width-4))
}

func (s *screen) verdict(dir string) {
	s.print("", s.paint(green, "All as it must be.")+" The figure and the table are in "+dir+".")
}
