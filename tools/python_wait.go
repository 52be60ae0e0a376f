package tools

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

type pythonWaitInput struct {
	RunID       string   `json:"run_id,omitempty" jsonschema_description:"Default: the latest run."`
	WaitSeconds *float64 `json:"wait_seconds,omitempty" jsonschema:"minimum=0,maximum=3600" jsonschema_description:"How long to wait for the end."`
	Interrupt   bool     `json:"interrupt,omitempty" jsonschema_description:"Stop the run; variables are kept."`
	target
}

func (t *toolset) pythonWait() server.ServerTool {
	return define(t, definition[pythonWaitInput]{
		name:        "python_wait",
		title:       "Wait for Python",
		description: "Get the result of a python_run that was answered as still running, or stop it.",
		hints:       hints{},
		output:      session.RunResult{},
		handle: func(ctx context.Context, c call, in pythonWaitInput) (answer, error) {
			progress, end := t.reporter(ctx, c.token)
			defer end()
			res, err := t.sessions.Wait(ctx, c.ref, session.WaitRequest{
				RunID:     in.RunID,
				Wait:      in.wait(),
				Interrupt: in.Interrupt,
				Progress:  progress,
			})
			if err != nil {
				return answer{}, err
			}
			return t.runAnswer(res), nil
		},
	})
}

// wait is how long to wait: with 0 the call only looks, unless it interrupts
// the run, whose end is then worth a moment.
func (in pythonWaitInput) wait() time.Duration {
	switch {
	case in.WaitSeconds == nil || *in.WaitSeconds == 0 && in.Interrupt:
		return 0
	case *in.WaitSeconds == 0:
		return -1
	}
	return max(time.Duration(*in.WaitSeconds*float64(time.Second)), 1)
}
