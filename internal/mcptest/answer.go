package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ResultKey is where the result object travels in _meta.
const ResultKey = "biocage/result"

// An Answer is what a tool's caller gets.
type Answer struct {
	IsError bool
	Content []Block
	Object  Object          // the result object, when there was one
	Meta    json.RawMessage // the result object as it came; nil when there was none
	RPC     *RPCError       // the request was refused by the protocol
	Line    []byte          // the whole message as it came
	Took    time.Duration
	Updates []Progress
}

// A Block is one piece of the content.
type Block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
}

// An Object is the result object of python_run, with what tests look at.
// Other tools' objects are decoded from Meta.
type Object struct {
	Success       bool    `json:"success"`
	Status        string  `json:"status"`
	RunID         string  `json:"run_id"`
	Stdout        string  `json:"stdout"`
	Stderr        string  `json:"stderr"`
	ExitCode      int     `json:"exit_code"`
	ExecutionTime float64 `json:"execution_time"`
	Result        *string `json:"result"`
	Error         *Fault  `json:"error"`
	Images        int     `json:"images"`
	Files         []File  `json:"files"`
	Truncated     bool    `json:"truncated"`
	Restarted     bool    `json:"restarted"`
	RestartReason string  `json:"restart_reason"`
	Session       string  `json:"session"`
	LateOutput    string  `json:"late_output"`
}

// A Fault is the error of a result object.
type Fault struct {
	Kind      string `json:"kind"`
	Type      string `json:"type"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	Line      int    `json:"line"`
	Hint      string `json:"hint"`
}

// A File is a file that a run made or changed.
type File struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	MIMEType string `json:"mime_type"`
	URI      string `json:"uri"`
}

// BeginTool sends the call of a tool.
func (s *Server) BeginTool(name string, args map[string]any) (*Pending, error) {
	return s.Begin("tools/call", map[string]any{"name": name, "arguments": args})
}

// Tool calls a tool and waits for its answer. An error means that there was
// none; a refusal is an answer.
func (s *Server) Tool(ctx context.Context, name string, args map[string]any) (*Answer, error) {
	p, err := s.BeginTool(name, args)
	if err != nil {
		return nil, err
	}
	return p.Answer(ctx)
}

// Answer waits for the answer to the call of a tool.
func (p *Pending) Answer(ctx context.Context) (*Answer, error) {
	raw, err := p.Wait(ctx)
	a := &Answer{Line: p.line, Took: p.took, Updates: p.Progress()}
	if err != nil {
		if errors.As(err, &a.RPC) {
			return a, nil
		}
		return nil, err
	}
	var body struct {
		IsError bool                       `json:"isError"`
		Content []Block                    `json:"content"`
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, fmt.Errorf("the answer is no tool result: %w", err)
	}
	a.IsError, a.Content, a.Meta = body.IsError, body.Content, body.Meta[ResultKey]
	if a.Meta != nil {
		if err := json.Unmarshal(a.Meta, &a.Object); err != nil {
			return nil, fmt.Errorf("the result object: %w", err)
		}
	}
	return a, nil
}

// Refused tells whether the call failed in any way.
func (a *Answer) Refused() bool { return a.IsError || a.RPC != nil }

// Text joins the text blocks, or is the protocol's error.
func (a *Answer) Text() string {
	if a.RPC != nil {
		return a.RPC.Error()
	}
	var texts []string
	for _, b := range a.Content {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Count counts the blocks of a type.
func (a *Answer) Count(blockType string) int {
	n := 0
	for _, b := range a.Content {
		if b.Type == blockType {
			n++
		}
	}
	return n
}
