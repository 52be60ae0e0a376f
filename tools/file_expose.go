package tools

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/session"
)

type fileExposeInput struct {
	HostPath    string `json:"host_path" jsonschema:"required,minLength=1" jsonschema_description:"Absolute path on the host."`
	SandboxPath string `json:"sandbox_path,omitempty" jsonschema_description:"Default: /data/NAME."`
	Mode        string `json:"mode,omitempty" jsonschema:"enum=ro,enum=rw"`
	target
}

func (t *toolset) fileExpose() server.ServerTool {
	return define(t, definition[fileExposeInput]{
		name:        "file_expose",
		title:       "Expose host files",
		description: "Make a host file or directory that the server allows appear in the sandbox, read-only unless mode is rw.",
		hints:       hints{},
		output:      session.Exposure{},
		handle: func(ctx context.Context, c call, in fileExposeInput) (answer, error) {
			mode := sandbox.ReadOnly
			if in.Mode == "rw" {
				mode = sandbox.ReadWrite
			}
			return t.expose(ctx, c, session.ExposeRequest{HostPath: in.HostPath, SandboxPath: in.SandboxPath, Mode: mode})
		},
	})
}

func exposeText(res session.Exposure) string {
	access := "read-only"
	if res.Mode == "rw" {
		access = "for reading and writing"
	}
	how := "it is a copy: later changes on the host do not show, and changes in the sandbox do not reach the host"
	if res.Live {
		how = "changes on the host show at once"
	}
	return fmt.Sprintf("%s is at %s, %s; %s.", shorten(Sanitize(res.HostPath), 1000), shorten(Sanitize(res.SandboxPath), 1000), access, how)
}
