package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// An RPCError is the error of an answer.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

// Progress is one notification of progress.
type Progress struct {
	Value   float64
	Message string
	At      time.Time
}

// A Pending is a call that was sent and whose answer may be awaited later.
type Pending struct {
	server *Server
	id     int64
	sent   time.Time
	ended  chan struct{}

	// Written by the reader: before ended is closed, or under the server's mutex.
	progress []Progress
	line     []byte
	result   json.RawMessage
	err      error
	took     time.Duration
}

func (p *Pending) end(result json.RawMessage, err error) {
	p.result, p.err, p.took = result, err, time.Since(p.sent)
	close(p.ended)
}

// Begin sends a request; params may be nil. Progress of a call of a tool is
// reported with the request's own number as its token.
func (s *Server) Begin(method string, params map[string]any) (*Pending, error) {
	p := &Pending{server: s, id: s.nextID.Add(1), sent: time.Now(), ended: make(chan struct{})}
	request := map[string]any{"jsonrpc": "2.0", "id": p.id, "method": method}
	if params != nil {
		if method == "tools/call" {
			meta, ok := params["_meta"].(map[string]any)
			if !ok {
				meta = map[string]any{}
			}
			meta["progressToken"] = p.id
			params["_meta"] = meta
		}
		request["params"] = params
	}
	s.mu.Lock()
	if !s.Alive() {
		s.mu.Unlock()
		return nil, ErrEnded
	}
	s.waiting[p.id] = p
	s.mu.Unlock()
	if err := s.send(request); err != nil {
		s.mu.Lock()
		delete(s.waiting, p.id)
		s.mu.Unlock()
		return nil, err
	}
	return p, nil
}

// Call sends a request and waits for its result.
func (s *Server) Call(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	p, err := s.Begin(method, params)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Notify sends a notification.
func (s *Server) Notify(method string, params map[string]any) error {
	note := map[string]any{"jsonrpc": "2.0", "method": method}
	if params != nil {
		note["params"] = params
	}
	return s.send(note)
}

// answer answers a question of the server's. A server that has ended meanwhile
// needs no answer.
func (s *Server) answer(id json.RawMessage, method string, line []byte) {
	var question struct {
		Params json.RawMessage `json:"params"`
	}
	var result any
	err := json.Unmarshal(line, &question)
	if err == nil {
		if s.opts.Answer == nil {
			err = errors.New("nobody answers here")
		} else {
			result, err = s.opts.Answer(method, question.Params)
		}
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": id}
	if err != nil {
		answer["error"] = RPCError{Code: -32603, Message: err.Error()}
	} else {
		answer["result"] = result
	}
	if err := s.send(answer); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.foreign = append(s.foreign, fmt.Sprintf("the answer to %s was not sent: %v", method, err))
	}
}

// Modern is the _meta of a request of the protocol's second era, in which
// every request says what the client can do.
func Modern(capabilities map[string]any) map[string]any {
	if capabilities == nil {
		capabilities = map[string]any{}
	}
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "mcptest", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": capabilities,
	}
}

// Raw sends a line as it is, for what no proper client would send. The answer,
// if there is one, is among Foreign.
func (s *Server) Raw(line []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	_, err := s.stdin.Write(append(append([]byte(nil), line...), '\n'))
	return err
}

func (s *Server) send(m any) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := s.Raw(data); err != nil {
		return fmt.Errorf("cannot write to the server: %w", err)
	}
	return nil
}

// ID is the request's number, as a cancelling notification names it.
func (p *Pending) ID() int64 { return p.id }

// Ended is closed when the answer is there.
func (p *Pending) Ended() <-chan struct{} { return p.ended }

// Wait waits for the answer. A context that ends leaves the call unanswered;
// the server is not told.
func (p *Pending) Wait(ctx context.Context) (json.RawMessage, error) {
	select {
	case <-p.ended:
		return p.result, p.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer after %s: %w", time.Since(p.sent).Round(time.Millisecond), ctx.Err())
	}
}

// Cancel tells the server that nobody waits any more.
func (p *Pending) Cancel(reason string) error {
	return p.server.Notify("notifications/cancelled", map[string]any{"requestId": p.id, "reason": reason})
}

// Progress lists what was reported so far.
func (p *Pending) Progress() []Progress {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	return append([]Progress(nil), p.progress...)
}
