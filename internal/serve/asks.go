package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	maxAsks      = 16  // questions to one client without an answer yet
	maxErrorText = 500 // of what a client says went wrong
)

// asks are the questions to one client that have no answer yet. Its zero
// value is ready for use.
type asks struct {
	mu   sync.Mutex
	last int64                   // guarded by mu
	open map[string]chan message // guarded by mu; by the id as in the message
}

// begin makes an id, and the channel to which its answer will come.
func (a *asks) begin() (string, <-chan message, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) >= maxAsks {
		return "", nil, errTooManyQuestions
	}
	if a.open == nil {
		a.open = map[string]chan message{}
	}
	a.last++
	id := strconv.FormatInt(a.last, 10)
	answered := make(chan message, 1)
	a.open[id] = answered
	return id, answered, nil
}

// answer hands an answer over. One to a question that is over, or never was,
// is dropped.
func (a *asks) answer(m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answered := a.open[string(m.ID)]; answered != nil {
		delete(a.open, string(m.ID))
		answered <- m
	}
}

func (a *asks) end(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

// ask sends the client a request and waits for the answer, or for the end of
// ctx, which is the call's.
func (c *client) ask(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	if c.send == nil {
		return fmt.Errorf("%s: %w", method, errNoWayToAsk)
	}
	id, answered, err := c.asks.begin()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer c.asks.end(id)
	line, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  mcp.MCPMethod   `json:"method"`
		Params  any             `json:"params,omitempty"`
	}{mcp.JSONRPC_VERSION, json.RawMessage(id), method, params})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	if err := c.send(ctx, line); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m := <-answered:
		if err := m.result(result); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		c.withdraw(id)
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// withdraw tells the client that a question is not open any more, if there is
// room to tell it: who asks does not wait for that.
func (c *client) withdraw(id string) {
	select {
	case c.notifications <- mcp.JSONRPCNotification{
		JSONRPC: mcp.JSONRPC_VERSION,
		Notification: mcp.Notification{
			Method: string(mcp.MethodNotificationCancelled),
			Params: mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": json.RawMessage(id)}},
		},
	}:
	default:
	}
}

// result reads an answer.
func (m message) result(into any) error {
	if m.Error != nil {
		var clientError struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(m.Error, &clientError); err != nil {
			return fmt.Errorf("the client's error is malformed: %w", err)
		}
		return fmt.Errorf("the client refused (%d): %.*s", clientError.Code, maxErrorText, clientError.Message)
	}
	if err := json.Unmarshal(m.Result, into); err != nil {
		return fmt.Errorf("the client's answer is malformed: %w", err)
	}
	return nil
}
