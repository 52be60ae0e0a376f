package cases

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif" // the forms that an answer's images may have
	_ "image/jpeg"
	_ "image/png"
	"strings"
)

// An outcome is what a step came to.
type outcome struct {
	call     string
	raw      []byte // the answer's line
	failure  string // a JSON-RPC error
	isError  bool
	text     string // the text blocks
	images   []picture
	run      *runFields // python_run's result object
	seconds  float64    // at the client
	progress int
	value    any    // of h.host_read and h.host_exists
	owner    string // of h.host_stat
}

type picture struct {
	mime string
	data []byte
}

// runFields is the result object of python_run.
type runFields struct {
	Success   bool      `json:"success"`
	Status    string    `json:"status"`
	RunID     string    `json:"run_id"`
	Stdout    string    `json:"stdout"`
	Stderr    string    `json:"stderr"`
	ExitCode  int       `json:"exit_code"`
	Result    *string   `json:"result"`
	Error     *runError `json:"error"`
	Images    int       `json:"images"`
	Truncated bool      `json:"truncated"`
	Restarted bool      `json:"restarted"`
}

type runError struct {
	Kind      string `json:"kind"`
	Type      string `json:"type"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	Line      int    `json:"line"`
	Hint      string `json:"hint"`
}

// maxAnswer bounds every answer, images included.
const maxAnswer = 900_000

// readAnswer takes an answer apart and checks what holds for every answer.
func readAnswer(call string, got reply) (*outcome, error) {
	out := &outcome{call: call, raw: got.line}
	if got.msg.Error != nil {
		out.failure = got.msg.Error.Message
		return out, nil
	}
	var body struct {
		Meta struct {
			Result json.RawMessage `json:"biocage/result"`
		} `json:"_meta"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			MIME string `json:"mimeType"`
			Data string `json:"data"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(got.msg.Result, &body); err != nil {
		return nil, fmt.Errorf("unreadable answer: %w", err)
	}
	out.isError = body.IsError
	for _, block := range body.Content {
		switch block.Type {
		case "text":
			out.text += block.Text
		case "image":
			data, err := base64.StdEncoding.DecodeString(block.Data)
			if err != nil {
				return nil, fmt.Errorf("an image is no base64: %w", err)
			}
			out.images = append(out.images, picture{mime: block.MIME, data: data})
		}
	}
	if call == "python_run" && body.Meta.Result != nil {
		out.run = &runFields{}
		if err := json.Unmarshal(body.Meta.Result, out.run); err != nil {
			return nil, fmt.Errorf("unreadable result object: %w", err)
		}
	}
	return out, out.soundness()
}

// soundness checks the rules that hold for every answer.
func (o *outcome) soundness() error {
	if len(o.raw) > maxAnswer {
		return fmt.Errorf("the answer has %d bytes; %d are the most", len(o.raw), maxAnswer)
	}
	if err := strayUTF8(o.raw); err != nil {
		return err
	}
	if o.text == "" {
		return fmt.Errorf("the answer has no text block")
	}
	if o.run == nil {
		return nil
	}
	if o.run.Success == o.isError {
		return fmt.Errorf("success is %t and isError %t", o.run.Success, o.isError)
	}
	if o.run.Success != (o.run.Error == nil) {
		return fmt.Errorf("success is %t and error %+v", o.run.Success, o.run.Error)
	}
	if o.run.Images != len(o.images) {
		return fmt.Errorf("images is %d and %d image blocks came", o.run.Images, len(o.images))
	}
	return nil
}

// valid tells whether a picture is what its type says.
func (p picture) valid() error {
	_, format, err := image.Decode(bytes.NewReader(p.data))
	if err != nil {
		return fmt.Errorf("an image does not open: %w", err)
	}
	if p.mime != "image/"+format {
		return fmt.Errorf("an image is %s and is called %s", format, p.mime)
	}
	return nil
}

// words is everything in the answer that can be read, decoded.
func (o *outcome) words() string {
	var b strings.Builder
	b.WriteString(o.failure)
	b.WriteString(o.text)
	if o.run != nil {
		fmt.Fprintf(&b, "\n%s\n%s\n", o.run.Stdout, o.run.Stderr)
		if o.run.Result != nil {
			b.WriteString(*o.run.Result)
		}
		if e := o.run.Error; e != nil {
			fmt.Fprintf(&b, "\n%s\n%s\n%s\n%s\n", e.Type, e.Message, e.Traceback, e.Hint)
		}
	}
	return b.String()
}

// brief describes an outcome for a failure message.
func (o *outcome) brief() string {
	const most = 1500
	if o.raw == nil {
		return fmt.Sprintf("value %v, owner %q", o.value, o.owner)
	}
	return fmt.Sprintf("after %.1f s: %.*s", o.seconds, most, o.raw)
}

// class gives the corpus's word for the kind of an error.
func (e *runError) class() string {
	if e == nil {
		return ""
	}
	if e.Kind == "memory" {
		return "oom"
	}
	return e.Kind
}
