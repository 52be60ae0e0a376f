package pyagent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// An Execution is one running or ended cell.
type Execution struct {
	conn  *Conn
	id    int64
	done  chan struct{}
	reply ExecuteReply // valid after done
	err   error        // valid after done
}

// Execute sends a cell. What it sends while it runs goes to sink.
func (c *Conn) Execute(req ExecuteRequest, sink Sink) (*Execution, error) {
	e := &Execution{conn: c, done: make(chan struct{})}
	id, err := c.register(func(id int64) {
		e.id = id
		c.cells[id] = &cell{sink: sink, exec: e}
	})
	if err != nil {
		return nil, err
	}
	fields := struct {
		MaxOutput int64 `json:"max_output"`
		Count     int64 `json:"execution_count"`
	}{req.MaxOutput, req.Count}
	if err := c.send("execute_request", id, fields, []byte(req.Code)); err != nil {
		c.mu.Lock()
		delete(c.cells, id)
		c.mu.Unlock()
		return nil, err
	}
	return e, nil
}

// Done is closed when the cell has ended or the connection is lost.
func (e *Execution) Done() <-chan struct{} { return e.done }

// Reply tells how the cell ended, after Done.
func (e *Execution) Reply() (ExecuteReply, error) {
	<-e.done
	return e.reply, e.err
}

// Interrupt starts the interrupt ladder for this cell and no other: SIGINT,
// again after half the grace, and after the grace the worker is replaced.
func (e *Execution) Interrupt(ctx context.Context, grace time.Duration) (delivered bool, err error) {
	req := struct {
		Cell    int64 `json:"cell"`
		GraceMS int64 `json:"grace_ms"`
	}{e.id, grace.Milliseconds()}
	var reply struct {
		Delivered bool `json:"delivered"`
	}
	_, err = e.conn.roundTrip(ctx, "interrupt_request", req, nil, &reply)
	return reply.Delivered, err
}

// event is the header of every frame that the supervisor sends.
type event struct {
	Type  string `json:"type"`
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	MIME  string `json:"mime"`
	Index int    `json:"index"`
	Bytes int64  `json:"bytes"`
	// Last is a line of text in progress, and in display_data whether the
	// chunk is the object's last.
	Last json.RawMessage `json:"last"`
}

// read is the connection's only reader; it ends with the stream.
func (c *Conn) read() {
	frames := newFrameReader(c.rwc)
	var err error
	for err == nil {
		var f frame
		if f, err = frames.next(); err == nil {
			err = c.dispatch(f)
		}
	}
	c.end(err)
}

// end fails everything that waits.
func (c *Conn) end(cause error) {
	closeErr := c.rwc.Close() // a peer that broke the protocol is not heard again
	c.mu.Lock()
	c.cause = cause
	cells := c.cells
	c.cells = nil
	c.mu.Unlock()
	for _, cl := range cells {
		cl.exec.err = fmt.Errorf("%w: %w", ErrLost, cause)
		close(cl.exec.done)
	}
	_ = closeErr // the cause is what matters; closing twice is no fault
	close(c.done)
}

func (c *Conn) dispatch(f frame) error {
	var ev event
	if err := json.Unmarshal(f.header, &ev); err != nil {
		return fmt.Errorf("%w: header: %w", ErrProtocol, err)
	}
	switch ev.Type {
	case "kernel_info":
		return c.hello(f.header)
	case "stream", "progress", "display_data":
		return c.cellEvent(ev, f.body)
	case "execute_reply":
		return c.cellReply(ev.ID, f)
	default:
		return c.deliver(ev, f)
	}
}

func (c *Conn) hello(header []byte) error {
	var info KernelInfo
	if err := json.Unmarshal(header, &info); err != nil {
		return fmt.Errorf("%w: kernel_info: %w", ErrProtocol, err)
	}
	select {
	case c.info <- info:
		return nil
	default:
		return fmt.Errorf("%w: a second kernel_info", ErrProtocol)
	}
}

func (c *Conn) cellEvent(ev event, body []byte) error {
	c.mu.Lock()
	cl := c.cells[ev.ID]
	c.mu.Unlock()
	if cl == nil {
		return fmt.Errorf("%w: %s for cell %d, which does not run", ErrProtocol, ev.Type, ev.ID)
	}
	switch ev.Type {
	case "stream":
		if ev.Name != "stdout" && ev.Name != "stderr" {
			return fmt.Errorf("%w: unknown stream", ErrProtocol)
		}
		cl.sink.Stream(ev.Name, body)
	case "progress":
		var line string
		if err := json.Unmarshal(ev.Last, &line); err != nil {
			return fmt.Errorf("%w: progress: %w", ErrProtocol, err)
		}
		cl.sink.Progress(ev.Bytes, line)
	default:
		cl.sink.Display(ev.MIME, ev.Index, string(ev.Last) == "true", body)
	}
	return nil
}

func (c *Conn) cellReply(id int64, f frame) error {
	c.mu.Lock()
	cl := c.cells[id]
	delete(c.cells, id)
	c.mu.Unlock()
	if cl == nil {
		return fmt.Errorf("%w: a reply for cell %d, which does not run", ErrProtocol, id)
	}
	cl.exec.reply, cl.exec.err = decodeExecuteReply(f)
	close(cl.exec.done)
	return nil
}

func decodeExecuteReply(f frame) (ExecuteReply, error) {
	var reply struct {
		ExecuteReply
		PartList []struct {
			Name string `json:"name"`
			Size int    `json:"size"`
		} `json:"parts"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(f.header, &reply); err != nil {
		return ExecuteReply{}, fmt.Errorf("%w: execute_reply: %w", ErrProtocol, err)
	}
	if reply.Code != "" {
		return ExecuteReply{}, &RequestError{Code: reply.Code, Message: reply.Message}
	}
	if reply.Status != StatusOK && reply.Status != StatusError && reply.Status != StatusDied {
		return ExecuteReply{}, fmt.Errorf("%w: unknown status of a cell", ErrProtocol)
	}
	body := bytes.Clone(f.body)
	reply.Parts = make(map[string][]byte, len(reply.PartList))
	for _, p := range reply.PartList {
		if p.Size < 0 || p.Size > len(body) {
			return ExecuteReply{}, fmt.Errorf("%w: part longer than the body", ErrProtocol)
		}
		reply.Parts[p.Name], body = body[:p.Size], body[p.Size:]
	}
	return reply.ExecuteReply, nil
}

// deliver hands a reply to the call that waits for it.
func (c *Conn) deliver(ev event, f frame) error {
	c.mu.Lock()
	w, known := c.pending[ev.ID]
	delete(c.pending, ev.ID)
	c.mu.Unlock()
	if !known {
		return fmt.Errorf("%w: %q that nobody asked for", ErrProtocol, ev.Type)
	}
	if w != nil {
		w.reply <- rawReply{header: bytes.Clone(f.header), body: bytes.Clone(f.body)}
	}
	return nil
}
