package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/biocypher/biocage-mcp/internal/remains"
)

// errDiffers: the server answered, but not as it must.
var errDiffers = errors.New("something differs from what it must be")

// tools are what the server must offer, no more and no less.
func toolNames() []string {
	return []string{
		"file_expose", "file_list", "file_read", "file_write",
		"python_run", "python_wait", "session_info", "session_reset",
	}
}

// A tour plays the story on one server.
type tour struct {
	srv  *server
	scr  *screen
	opts options

	rows   []row
	faults int
	engine string   // as session_info told
	boxes  []string // ids of the sandboxes that the server told of
}

// A row is a line of the closing table.
type row struct {
	title string
	tool  string
	took  time.Duration
	ok    bool
}

func (t *tour) table() string { return filepath.Join(t.opts.data, "penguins.csv") }

// play makes every call, whatever the answers are; it ends early only when
// the server does not answer.
func (t *tour) play(ctx context.Context) error {
	tools, err := t.srv.client.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	t.scr.hello(t.srv.hello.ServerInfo, t.srv.took, names)
	t.count("The server answers initialize", "", t.srv.took, sameWords(names, toolNames()))
	for i, step := range t.story() {
		if err := t.step(ctx, i+1, step); err != nil {
			return err
		}
	}
	if t.faults > 0 {
		return fmt.Errorf("%w: %d of %d steps", errDiffers, t.faults, len(t.rows))
	}
	return nil
}

func (t *tour) step(ctx context.Context, number int, step step) error {
	t.scr.call(number, step)
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var request mcp.CallToolRequest
	request.Params.Name = step.tool
	request.Params.Arguments = step.args
	begin := time.Now()
	res, err := t.srv.client.CallTool(ctx, request)
	took := time.Since(begin)
	if err != nil {
		return fmt.Errorf("step %d, %s: %w", number, step.tool, err)
	}
	a, err := decode(res)
	a.took = took
	t.scr.answer(a)
	for _, want := range step.want {
		if err == nil {
			err = want(a)
		}
	}
	t.count(step.title, step.tool, took, err)
	return nil
}

// count adds a row to the table and tells what was wrong.
func (t *tour) count(title, tool string, took time.Duration, err error) {
	t.rows = append(t.rows, row{title: title, tool: tool, took: took, ok: err == nil})
	if err != nil {
		t.faults++
		t.scr.fault(err)
	}
}

// remember keeps what session_info and session_reset tell of the sandbox, so
// that its end can be checked. It is a check, too.
func (t *tour) remember(a answer) error {
	if a.result.SandboxID == "" {
		return errors.New("the answer does not name the sandbox")
	}
	t.boxes = append(t.boxes, a.result.SandboxID)
	if a.result.Engine != "" {
		t.engine = a.result.Engine
		if t.opts.engine != "auto" && t.engine != t.opts.engine {
			return fmt.Errorf("the engine is %s, not %s", t.engine, t.opts.engine)
		}
	}
	return nil
}

// finish stops the server and proves that nothing is left of it.
func (t *tour) finish(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // an interrupted demo must clean up as well
	before := t.faults
	watch := t.srv.watch(t.engine)
	var lookErr error
	if canWatch() {
		for _, id := range t.boxes {
			watch.Note(id)
		}
		lookErr = watch.Look(ctx)
	}
	took, err := t.srv.stop()
	t.count("The server stops when its input ends", "", took, err)
	t.proveGone(ctx, watch, lookErr)
	if t.faults > before {
		return fmt.Errorf("%w at the end", errDiffers)
	}
	return nil
}

func (t *tour) proveGone(ctx context.Context, watch *remains.Watch, lookErr error) {
	if !canWatch() {
		t.scr.note("What is left was not looked at: this system has no /proc.")
		return
	}
	if lookErr != nil {
		t.count("Nothing is left", "", 0, lookErr)
		return
	}
	left, took, err := watch.Gone(ctx, goneWithin)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still there after %v:\n%s", goneWithin, strings.Join(left, "\n"))
	}
	procs, boxes := watch.Seen()
	t.scr.note(fmt.Sprintf("Stopped. Of %d processes and %d sandboxes, %d things are left.", procs, boxes, len(left)))
	t.count("Nothing is left", "", took, err)
}

// sameWords tells how the sorted list got differs from want.
func sameWords(got, want []string) error {
	if g, w := strings.Join(got, " "), strings.Join(want, " "); g != w {
		return fmt.Errorf("the server's tools are %s, not %s", g, w)
	}
	return nil
}
