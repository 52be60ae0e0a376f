package tools

import (
	"context"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

type sessionResetInput struct {
	KeepFiles bool `json:"keep_files,omitempty" jsonschema_description:"Keep the workspace's files."`
	target
}

func (t *toolset) sessionReset() server.ServerTool {
	return define(t, definition[sessionResetInput]{
		name:        "session_reset",
		title:       "Reset the session",
		description: "Start anew: variables, running code and (unless kept) files are gone.",
		hints:       hints{destructive: true, idempotent: true},
		output:      session.ResetResult{},
		handle: func(ctx context.Context, c call, in sessionResetInput) (answer, error) {
			res, err := t.sessions.Reset(ctx, c.ref, in.KeepFiles)
			if err != nil {
				return answer{}, err
			}
			text := "The session is fresh: variables and files are gone."
			if in.KeepFiles {
				text = "The interpreter is fresh: variables are gone, files of the workspace are kept."
			}
			return answer{text: text, object: res}, nil
		},
	})
}
