package tools

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

type pythonRunInput struct {
	Code           string  `json:"code" jsonschema:"required" jsonschema_description:"Python source: any number of lines."`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty" jsonschema:"minimum=0.1" jsonschema_description:"Limit for this run."`
	target
}

func (t *toolset) pythonRun() server.ServerTool {
	description := "Run Python in your own isolated interpreter. Variables, imports and files stay for later calls. " +
		"The value of the last expression, printed text, matplotlib figures and images are shown; end with ; to hide the value. " +
		"Top-level await and !shell work; input() does not. "
	if t.opts.Packages != "" {
		description += "Installed: " + t.opts.Packages + ". "
	}
	if t.opts.Network {
		description += "The network is reachable; pip install works for this session. "
	} else {
		description += "No network, so pip install cannot work. "
	}
	description += "A run that outlasts the answer goes on: see python_wait."
	return define(t, definition[pythonRunInput]{
		name:        "python_run",
		title:       "Run Python",
		description: description,
		hints:       hints{destructive: true},
		adjust: func(schema *jsonschema.Schema) {
			if timeout, ok := schema.Properties.Get("timeout_seconds"); ok {
				timeout.Maximum = json.Number(strconv.FormatFloat(t.opts.MaxTimeout.Seconds(), 'f', -1, 64))
			}
		},
		output: session.RunResult{},
		handle: func(ctx context.Context, c call, in pythonRunInput) (answer, error) {
			progress, end := t.reporter(ctx, c.token)
			defer end()
			res, err := t.sessions.Run(ctx, c.ref, session.RunRequest{
				Code:     in.Code,
				Timeout:  time.Duration(in.TimeoutSeconds * float64(time.Second)),
				Progress: progress,
			})
			if err != nil {
				return answer{}, err
			}
			return t.runAnswer(res).begin(res.Begun), nil
		},
	})
}
