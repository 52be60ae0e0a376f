package tools

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

// A client can only come back to a session of which it was told: before all
// else, and in the result object.
func TestBegunSessionIsTold(t *testing.T) {
	f := &fakeSessions{begun: "sbx_new", run: func(context.Context, session.RunRequest) (session.RunResult, error) {
		return session.RunResult{Success: true, Status: session.StatusDone, Session: "sbx_new", Begun: "sbx_new"}, nil
	}}
	h := newHarness(t, f, Options{})
	for tool, arguments := range map[string]string{
		"python_run":    `{"code":"x"}`,
		"file_write":    `{"path":"a","content":""}`,
		"file_expose":   `{"host_path":"/a"}`,
		"session_reset": `{}`,
	} {
		o := h.call(tool, arguments)
		first, rest, _ := strings.Cut(o.text(), "\n")
		if first != `session: sbx_new — pass it as "session" to continue here` || rest == "" {
			t.Errorf("%s: %s", tool, o.text())
		}
		if !strings.Contains(o.object(), `"session":"sbx_new"`) {
			t.Errorf("%s: %s", tool, o.object())
		}
	}
	f.begun = ""
	if o := h.call("file_write", `{"path":"a","content":""}`); strings.Contains(o.text(), "session") {
		t.Errorf("a session that was there is told as new: %s", o.text())
	}
}

type aClient struct{ id string }

func (aClient) Initialize()                                         {}
func (aClient) Initialized() bool                                   { return true }
func (aClient) NotificationChannel() chan<- mcp.JSONRPCNotification { return nil }
func (c aClient) SessionID() string                                 { return c.id }

type knownClient struct{ aClient }

func (knownClient) Principal() string { return "alice" }

func TestCallsBelongToTheirClient(t *testing.T) {
	tests := []struct {
		name   string
		client server.ClientSession
		want   session.Ref
	}{
		{"a pipe", aClient{"stdio"}, session.Ref{Connection: "stdio", Handle: "h"}},
		{"an authenticated connection", knownClient{aClient{"c1"}}, session.Ref{Principal: "alice", Connection: "c1", Handle: "h"}},
		{"a protocol without sessions", knownClient{}, session.Ref{Principal: "alice", Handle: "h"}},
		{"nobody", nil, session.Ref{Handle: "h"}},
	}
	s := server.NewMCPServer("x", "1")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			if tt.client != nil {
				ctx = s.WithContext(ctx, tt.client)
			}
			if diff := cmp.Diff(tt.want, refOf(ctx, "h")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
