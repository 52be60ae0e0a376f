package pyagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// ErrLost says that the connection has ended; the cause is wrapped beside it.
var ErrLost = errors.New("the connection to the sandbox is lost")

// A Conn is the host's end of one connection to a supervisor. Its methods may
// be called from several goroutines at once.
type Conn struct {
	rwc  io.ReadWriteCloser
	done chan struct{} // closed when the reader has ended
	info chan KernelInfo

	writing sync.Mutex // held for one frame's write; taken before mu, never after
	buf     []byte     // guarded by writing

	mu      sync.Mutex
	nextID  int64           // guarded by mu
	pending map[int64]*call // guarded by mu
	cause   error           // why the connection ended; guarded by mu
	cells   map[int64]*cell // running executions by id; guarded by mu
}

// A call waits for the one reply to its request.
type call struct {
	reply chan rawReply // capacity 1
}

type rawReply struct {
	header []byte
	body   []byte
}

type cell struct {
	sink Sink
	exec *Execution
}

// NewConn starts to read from rwc, which it owns from now on.
func NewConn(rwc io.ReadWriteCloser) *Conn {
	c := &Conn{
		rwc:     rwc,
		done:    make(chan struct{}),
		info:    make(chan KernelInfo, 1),
		pending: map[int64]*call{},
		cells:   map[int64]*cell{},
	}
	go c.read()
	return c
}

// Close ends the connection and returns when its reader has ended.
func (c *Conn) Close() error {
	err := c.rwc.Close()
	<-c.done
	if err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close agent stream: %w", err)
	}
	return nil
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err tells why the connection ended; nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Hello waits for the supervisor's first frame.
func (c *Conn) Hello(ctx context.Context) (KernelInfo, error) {
	select {
	case info := <-c.info:
		if info.Protocol != ProtocolVersion {
			return info, fmt.Errorf("%w: the agent speaks version %d, this host %d", ErrProtocol, info.Protocol, ProtocolVersion)
		}
		return info, nil
	case <-c.done:
		return KernelInfo{}, c.lost()
	case <-ctx.Done():
		return KernelInfo{}, context.Cause(ctx)
	}
}

// Start configures the supervisor and waits until a worker can run cells.
func (c *Conn) Start(ctx context.Context, req StartRequest) (StartReply, error) {
	var reply StartReply
	_, err := c.roundTrip(ctx, "start_request", req, nil, &reply)
	return reply, err
}

// Ping asks how the supervisor is doing; it answers while code runs. It asks
// for nothing that takes time to find out: the engine measures memory.
func (c *Conn) Ping(ctx context.Context) (PingReply, error) {
	var reply PingReply
	_, err := c.roundTrip(ctx, "ping_request", struct{}{}, nil, &reply)
	return reply, err
}

// Shutdown asks the supervisor to end everything and itself.
func (c *Conn) Shutdown(ctx context.Context) error {
	_, err := c.roundTrip(ctx, "shutdown_request", struct{}{}, nil, nil)
	return err
}

// Reset makes a new worker; a running cell is answered first.
func (c *Conn) Reset(ctx context.Context, keepFiles bool) error {
	req := struct {
		KeepFiles bool `json:"keep_files"`
	}{keepFiles}
	_, err := c.roundTrip(ctx, "reset_request", req, nil, nil)
	return err
}

// Inspect lists at most limit variables without running user code.
func (c *Conn) Inspect(ctx context.Context, limit int) (InspectReply, error) {
	req := struct {
		Limit int `json:"limit"`
	}{limit}
	var reply InspectReply
	_, err := c.roundTrip(ctx, "inspect_request", req, nil, &reply)
	return reply, err
}

// WriteFile writes one chunk.
func (c *Conn) WriteFile(ctx context.Context, req WriteFileRequest, data []byte) (WriteFileReply, error) {
	var reply WriteFileReply
	_, err := c.roundTrip(ctx, "write_file_request", req, data, &reply)
	return reply, err
}

// ReadFile reads at most limit (1 MiB) bytes from offset.
func (c *Conn) ReadFile(ctx context.Context, path string, offset, limit int64) (ReadFileReply, error) {
	req := struct {
		Path   string `json:"path"`
		Offset int64  `json:"offset"`
		Limit  int64  `json:"limit"`
	}{path, offset, limit}
	var reply ReadFileReply
	body, err := c.roundTrip(ctx, "read_file_request", req, nil, &reply)
	reply.Data = body
	return reply, err
}

// ListFiles lists a directory.
func (c *Conn) ListFiles(ctx context.Context, path string, recursive bool, limit int) (entries []Entry, truncated bool, err error) {
	req := struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
		Limit     int    `json:"limit"`
	}{path, recursive, limit}
	var reply struct {
		Truncated bool `json:"truncated"`
	}
	body, err := c.roundTrip(ctx, "list_files_request", req, nil, &reply)
	if err != nil {
		return nil, false, err
	}
	if err := json.Unmarshal(body, &entries); err != nil {
		return nil, false, fmt.Errorf("%w: listing: %w", ErrProtocol, err)
	}
	return entries, reply.Truncated, nil
}

// MakeLink makes a symbolic link at path.
func (c *Conn) MakeLink(ctx context.Context, path, target string) error {
	req := struct {
		Path   string `json:"path"`
		Target string `json:"target"`
	}{path, target}
	_, err := c.roundTrip(ctx, "make_link_request", req, nil, nil)
	return err
}

// request is the envelope that every request shares; the fields follow flat.
func encodeRequest(kind string, id int64, fields any) (json.RawMessage, error) {
	f, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	head := fmt.Appendf(nil, `{"type":%q,"id":%d`, kind, id)
	if len(f) > 2 {
		head = append(append(head, ','), f[1:]...)
		return head, nil
	}
	return append(head, '}'), nil
}

// roundTrip sends one request and waits for its reply. When ctx ends first
// the reply is dropped when it comes.
func (c *Conn) roundTrip(ctx context.Context, kind string, fields any, body []byte, reply any) ([]byte, error) {
	w := &call{reply: make(chan rawReply, 1)}
	id, err := c.register(func(id int64) { c.pending[id] = w })
	if err != nil {
		return nil, err
	}
	if err := c.send(kind, id, fields, body); err != nil {
		c.forget(id)
		return nil, err
	}
	select {
	case r := <-w.reply:
		return r.body, decodeReply(r.header, reply)
	case <-c.done:
		select { // the reply may have come just before the end
		case r := <-w.reply:
			return r.body, decodeReply(r.header, reply)
		default:
			return nil, c.lost()
		}
	case <-ctx.Done():
		c.forget(id)
		return nil, context.Cause(ctx)
	}
}

func decodeReply(header []byte, reply any) error {
	var status struct {
		Status  string `json:"status"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(header, &status); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if status.Status != StatusOK {
		return &RequestError{Code: status.Code, Message: status.Message}
	}
	if reply == nil {
		return nil
	}
	if err := json.Unmarshal(header, reply); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

func (c *Conn) register(add func(id int64)) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return 0, c.lostLocked()
	}
	c.nextID++
	add(c.nextID)
	return c.nextID, nil
}

func (c *Conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.pending[id]; ok {
		c.pending[id] = nil // known, but nobody waits
	}
}

func (c *Conn) send(kind string, id int64, fields any, body []byte) error {
	header, err := encodeRequest(kind, id, fields)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	buf, rest, err := appendFrame(c.buf, header, body)
	if err != nil {
		return err
	}
	c.buf = buf[:0]
	if _, err = c.rwc.Write(buf); err == nil && rest != nil {
		_, err = c.rwc.Write(rest)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}

// lost is the error of a call that the end of the connection cut short.
func (c *Conn) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lostLocked()
}

func (c *Conn) lostLocked() error { return fmt.Errorf("%w: %w", ErrLost, c.cause) }

// pingTimeout is how long a supervisor may take to answer before it counts as
// stopped or gone.
const pingTimeout = 20 * time.Second

// KeepAlive renews the lease every interval until ctx ends, and returns nil
// then. When a ping is not answered in time or the connection ends it
// returns why: the supervisor is stopped, starved or gone.
func (c *Conn) KeepAlive(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.done:
			return c.lost()
		case <-tick.C:
			if err := c.ping(ctx); err != nil {
				return err
			}
		}
	}
}

func (c *Conn) ping(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	// A write to a stopped supervisor blocks once the pipe is full, and only
	// closing the stream frees it; so the wait is on a goroutine of our own.
	result := make(chan error, 1)
	go func() {
		_, err := c.Ping(limited)
		result <- err
	}()
	select {
	case err := <-result:
		if ctx.Err() != nil {
			return nil
		}
		return err
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("no answer to a ping within %s", pingTimeout)
	}
}
