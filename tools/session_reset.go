package tools

import (
	"context"
	"encoding/json"

	"github.com/invopop/jsonschema"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

type sessionResetInput struct {
	KeepFiles bool            `json:"keep_files,omitempty"`
	Close     bool            `json:"close,omitempty"`
	Limits    json.RawMessage `json:"limits,omitempty"`
	target
}

func (t *toolset) sessionReset() server.ServerTool {
	return define(t, definition[sessionResetInput]{
		name:        "session_reset",
		title:       "Reset the session",
		description: "Start anew: variables, running code and (unless kept) files are gone. close: end it.",
		hints:       hints{destructive: true, idempotent: true},
		adjust:      func(schema *jsonschema.Schema) { schema.Properties.Set("limits", limitsSchema()) },
		output:      session.ResetResult{},
		handle: func(ctx context.Context, c call, in sessionResetInput) (answer, error) {
			limits, err := parseLimits(in.Limits)
			if err != nil {
				return answer{}, err
			}
			res, err := t.sessions.Reset(ctx, c.ref, session.ResetRequest{KeepFiles: in.KeepFiles, Close: in.Close, Limits: limits})
			if err != nil {
				return answer{}, err
			}
			text := "The session is fresh: variables and files are gone."
			switch {
			case res.Closed:
				text = "The session is closed: its variables, files and handle are gone."
			case in.KeepFiles:
				text = "The interpreter is fresh: variables are gone, files of the workspace are kept."
			case limits != nil:
				text = "The session is fresh, in a new sandbox under the limits asked for: variables and files are gone."
			}
			return answer{text: text, object: res}.begin(res.Begun), nil
		},
	})
}
