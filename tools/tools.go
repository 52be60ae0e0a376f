package tools

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/session"
)

// Sessions is what the tools need of package session.
type Sessions interface { //nolint:interfacebloat // one method a tool
	Run(ctx context.Context, ref session.Ref, req session.RunRequest) (session.RunResult, error)
	Wait(ctx context.Context, ref session.Ref, req session.WaitRequest) (session.RunResult, error)
	WriteFile(ctx context.Context, ref session.Ref, req session.WriteRequest) (session.WriteResult, error)
	ReadFile(ctx context.Context, ref session.Ref, req session.ReadRequest) (session.ReadResult, error)
	ListFiles(ctx context.Context, ref session.Ref, req session.ListRequest) (session.ListResult, error)
	Expose(ctx context.Context, ref session.Ref, req session.ExposeRequest) (session.Exposure, error)
	Reset(ctx context.Context, ref session.Ref, req session.ResetRequest) (session.ResetResult, error)
	Info(ctx context.Context, ref session.Ref) (session.Info, error)
	Views
}

// Views look at sessions and start nothing: a session or sandbox that is not
// there is session.ErrUnknown.
type Views interface {
	Handles(ref session.Ref) []string
	PeekFile(ctx context.Context, ref session.Ref, req session.ReadRequest) (session.ReadResult, error)
	PeekFiles(ctx context.Context, ref session.Ref, req session.ListRequest) (session.ListResult, error)
	History(ref session.Ref) (session.History, error)
	HostNames(prefix string) []string
	Decline(ctx context.Context, ref session.Ref, hostPath string) error
	Undecided(ctx context.Context, ref session.Ref)
}

// Options shape the tools.
type Options struct {
	// Packages is one line for python_run's description: what the environment
	// holds. Empty leaves it out.
	Packages string
	// Network: sandboxes reach the network.
	Network bool
	// MaxTimeout is the most that a run may ask for; 0: 10 minutes.
	MaxTimeout time.Duration
	// Structured adds structuredContent and outputSchema.
	Structured bool
	// ClientRoots: folders that the client announces may be exposed.
	ClientRoots bool
	// Observers are told of every call, in this order.
	Observers []Observer
	Logger    *slog.Logger
}

// A toolset holds what the handlers share. It has no state of its own.
type toolset struct {
	sessions Sessions
	opts     Options
	log      *slog.Logger
	key      []byte // of the state that questions carry
}

func newToolset(sessions Sessions, opts Options) *toolset {
	if opts.MaxTimeout == 0 {
		opts.MaxTimeout = 10 * time.Minute
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	key := make([]byte, 32)
	rand.Read(key)
	return &toolset{key: key, sessions: sessions, opts: opts, log: opts.Logger}
}

// All makes every tool.
func All(sessions Sessions, opts Options) []server.ServerTool {
	t := newToolset(sessions, opts)
	return []server.ServerTool{
		t.pythonRun(),
		t.pythonWait(),
		t.fileWrite(),
		t.fileRead(),
		t.fileList(),
		t.fileExpose(),
		t.sessionReset(),
		t.sessionInfo(),
	}
}

// Templates makes the resource template that links in answers point into.
func Templates(sessions Sessions, opts Options) []server.ServerResourceTemplate {
	return []server.ServerResourceTemplate{newToolset(sessions, opts).fileResource()}
}

// refOf tells whose call it is, by what the front end knows of its client.
func refOf(ctx context.Context, handle string) session.Ref {
	ref := session.Ref{Handle: handle}
	client := server.ClientSessionFromContext(ctx)
	if client == nil {
		return ref
	}
	ref.Connection = client.SessionID()
	if known, ok := client.(interface{ Principal() string }); ok {
		ref.Principal = known.Principal()
	}
	return ref
}
