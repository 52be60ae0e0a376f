package tools

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

// fakeSessions answers with what a test put in, and keeps what it was asked.
type fakeSessions struct {
	ref     session.Ref
	run     func(context.Context, session.RunRequest) (session.RunResult, error)
	wait    session.WaitRequest
	write   session.WriteRequest
	reads   []session.ReadRequest
	list    session.ListRequest
	expose  session.ExposeRequest
	reset   session.ResetRequest
	file    []byte
	mime    string
	entries []session.Entry
	info    session.Info
	begun   string
	handles []string
	history session.History
	names   []string
	// outside, when set, says what Expose makes of a path outside the roots.
	outside   func(session.ExposeRequest) error
	declined  []string
	undecided int
	err       error
}

var _ Sessions = (*fakeSessions)(nil)

func (f *fakeSessions) Run(ctx context.Context, ref session.Ref, req session.RunRequest) (session.RunResult, error) {
	f.ref = ref
	if f.run == nil {
		return session.RunResult{Success: true, Status: session.StatusDone}, f.err
	}
	return f.run(ctx, req)
}

func (f *fakeSessions) Wait(_ context.Context, ref session.Ref, req session.WaitRequest) (session.RunResult, error) {
	f.ref, f.wait = ref, req
	return session.RunResult{Success: true, Status: session.StatusDone}, f.err
}

func (f *fakeSessions) WriteFile(_ context.Context, ref session.Ref, req session.WriteRequest) (session.WriteResult, error) {
	f.ref, f.write = ref, req
	return session.WriteResult{Path: req.Path, Size: int64(len(req.Data)), Session: f.begun, Begun: f.begun}, f.err
}

func (f *fakeSessions) ReadFile(_ context.Context, ref session.Ref, req session.ReadRequest) (session.ReadResult, error) {
	f.ref, f.reads = ref, append(f.reads, req)
	data := f.file[min(req.Offset, int64(len(f.file))):]
	res := session.ReadResult{Path: req.Path, Size: int64(len(f.file)), MIMEType: f.mime, Data: data[:min(req.Limit, int64(len(data)))]}
	if len(res.Data) < len(data) {
		res.NextOffset = req.Offset + int64(len(res.Data))
	}
	return res, f.err
}

func (f *fakeSessions) ListFiles(_ context.Context, ref session.Ref, req session.ListRequest) (session.ListResult, error) {
	f.ref, f.list = ref, req
	return session.ListResult{Entries: f.entries}, f.err
}

func (f *fakeSessions) Handles(session.Ref) []string { return f.handles }

func (f *fakeSessions) History(ref session.Ref) (session.History, error) {
	f.ref = ref
	return f.history, f.err
}

func (f *fakeSessions) Decline(_ context.Context, _ session.Ref, hostPath string) error {
	f.declined = append(f.declined, hostPath)
	return badArgument("host_path", "The person declined.")
}

func (f *fakeSessions) Undecided(context.Context, session.Ref) { f.undecided++ }

func (f *fakeSessions) HostNames(prefix string) []string {
	return slices.DeleteFunc(slices.Clone(f.names), func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

func (f *fakeSessions) PeekFile(ctx context.Context, ref session.Ref, req session.ReadRequest) (session.ReadResult, error) {
	return f.ReadFile(ctx, ref, req)
}

func (f *fakeSessions) PeekFiles(ctx context.Context, ref session.Ref, req session.ListRequest) (session.ListResult, error) {
	return f.ListFiles(ctx, ref, req)
}

func (f *fakeSessions) Expose(_ context.Context, ref session.Ref, req session.ExposeRequest) (session.Exposure, error) {
	f.ref, f.expose = ref, req
	if f.outside != nil {
		if err := f.outside(req); err != nil {
			return session.Exposure{}, err
		}
	}
	return session.Exposure{HostPath: req.HostPath, SandboxPath: "/data/x", Mode: req.Mode.String(), Live: true, Session: f.begun, Begun: f.begun}, f.err
}

func (f *fakeSessions) Reset(_ context.Context, ref session.Ref, req session.ResetRequest) (session.ResetResult, error) {
	f.ref, f.reset = ref, req
	return session.ResetResult{Session: cmp.Or(f.begun, "sbx_a"), SandboxID: "b", Begun: f.begun}, f.err
}

func (f *fakeSessions) Info(_ context.Context, ref session.Ref) (session.Info, error) {
	f.ref = ref
	return f.info, f.err
}

func toolsOf(t *testing.T, all []server.ServerTool) []mcp.Tool {
	t.Helper()
	tools := make([]mcp.Tool, len(all))
	for i, tool := range all {
		tools[i] = tool.Tool
	}
	return tools
}
