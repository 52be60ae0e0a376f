package cases

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// A client is one server process and the JSON-RPC connection to it over the
// process's standard streams. Calls may be made from several goroutines.
type client struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   *tail

	mu       sync.Mutex // guards what follows, and writes
	last     int
	waiting  map[int]chan reply
	answered map[int]bool
	progress map[int]int
	stray    []string // lines on stdout that are no JSON-RPC

	exited chan struct{} // closed when the process was waited for
	exit   error         // set before exited is closed
}

type reply struct {
	line []byte
	msg  message
}

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

var errServerGone = errors.New("the server ended before it answered")

// connect starts a server and shakes hands.
func connect(name string, argv, env []string) (*client, error) {
	c := &client{
		name: name, cmd: exec.Command(argv[0], argv[1:]...), log: &tail{},
		waiting: map[int]chan reply{}, answered: map[int]bool{}, progress: map[int]int{}, exited: make(chan struct{}),
	}
	c.cmd.Env = env
	c.cmd.Stderr = c.log
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	// Not StdoutPipe: Wait would close it before everything was read.
	stdout, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout = writer
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	writer.Close()
	readDone := make(chan struct{})
	go func() {
		defer close(readDone)
		c.read(stdout)
		stdout.Close()
	}()
	go func() {
		c.exit = c.cmd.Wait()
		<-readDone
		close(c.exited)
	}()
	if err := c.shakeHands(); err != nil {
		c.kill()
		return nil, fmt.Errorf("%w\n%s", err, c.log)
	}
	return c, nil
}

func (c *client) shakeHands() error {
	params := `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cases","version":"1"}}`
	sent, err := c.send("initialize", []byte(params))
	if err != nil {
		return err
	}
	got, err := c.await(sent, 30*time.Second)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if got.msg.Error != nil {
		return fmt.Errorf("initialize: %s", got.msg.Error.Message)
	}
	return c.write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
}

// send writes a request and returns its id. The text of params goes out as it is.
func (c *client) send(method string, params []byte) (int, error) {
	id := c.newID()
	return id, c.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
}

// sendTool calls a tool with a progress token, which is the request's id.
func (c *client) sendTool(tool string, args []byte) (int, error) {
	id := c.newID()
	return id, c.write(fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":%d}}}`,
		id, tool, args, id))
}

func (c *client) newID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.waiting[c.last] = make(chan reply, 1)
	return c.last
}

func (c *client) write(line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("cannot write to the server: %w", err)
	}
	return nil
}

// await gives the answer to a request.
func (c *client) await(id int, patience time.Duration) (reply, error) {
	c.mu.Lock()
	answered := c.waiting[id]
	c.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case got := <-answered:
		return got, nil
	case <-c.exited:
		select {
		case got := <-answered:
			return got, nil
		default:
			return reply{}, errServerGone
		}
	case <-timer.C:
		return reply{}, fmt.Errorf("no answer within %v", patience)
	}
}

// read takes the server's lines until they end.
func (c *client) read(stdout io.Reader) {
	lines := bufio.NewReaderSize(stdout, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			c.take(bytes.TrimSuffix(line, []byte("\n")))
		}
		if err != nil {
			return
		}
	}
}

func (c *client) take(line []byte) {
	var msg message
	if err := json.Unmarshal(line, &msg); err != nil || msg.JSONRPC != "2.0" ||
		msg.Method == "" && (msg.ID == nil || (msg.Result == nil) == (msg.Error == nil)) {
		c.complain("no JSON-RPC", line)
		return
	}
	switch {
	case msg.Method == "":
		c.deliver(reply{line: line, msg: msg})
	case msg.ID != nil:
		c.answer(msg)
	case msg.Method == "notifications/progress":
		var params struct {
			Token int `json:"progressToken"`
		}
		if json.Unmarshal(msg.Params, &params) == nil {
			c.mu.Lock()
			c.progress[params.Token]++
			c.mu.Unlock()
		}
	}
}

// deliver hands an answer to whoever waits for it.
func (c *client) deliver(got reply) {
	id, err := strconv.Atoi(string(got.msg.ID))
	c.mu.Lock()
	waiting, again := c.waiting[id], c.answered[id]
	c.answered[id] = true
	c.mu.Unlock()
	switch {
	case err != nil || waiting == nil:
		c.complain("an answer that nobody asked for", got.line)
	case again:
		c.complain("a second answer", got.line)
	default:
		waiting <- got
	}
}

func (c *client) complain(what string, line []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stray = append(c.stray, fmt.Sprintf("%s: %.300s", what, line))
}

// answer replies to a request of the server's: a ping, or nothing we can do.
func (c *client) answer(msg message) {
	body := `"error":{"code":-32601,"message":"this client cannot do that"}`
	if msg.Method == "ping" {
		body = `"result":{}`
	}
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, msg.ID, body)
	go func() { _ = c.write(line) }() // the reader must not wait for the writer
}

func (c *client) progressOf(id int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.progress[id]
}

// strayLines are what the server wrote to stdout besides JSON-RPC.
func (c *client) strayLines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.stray...)
}

func (c *client) closeInput() { _ = c.stdin.Close() }

func (c *client) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// exits waits for the server's end.
func (c *client) exits(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}

func (c *client) alive() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 16 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*most {
		t.text = append([]byte(nil), t.text[len(t.text)-most:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
