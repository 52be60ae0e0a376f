package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/biocypher/biocage-mcp/pyagent"
	"github.com/biocypher/biocage-mcp/sandbox"
)

const (
	resetTimeout   = 15 * time.Second
	inspectTimeout = 3 * time.Second
	maxVariables   = 100
)

// Reset gives the session a fresh interpreter, and an empty workspace unless
// the files are to be kept. A running cell ends first; exposures stay, and so
// do the session's own limits unless the request brings others.
func (m *Manager) Reset(ctx context.Context, ref Ref, req ResetRequest) (res ResetResult, err error) {
	switch {
	case req.Close && (req.KeepFiles || req.Limits != nil):
		return ResetResult{}, &ArgumentError{Argument: "close", Message: "close ends the session with all that is in it; leave keep_files and limits out."}
	case req.Close:
		return m.closeSession(ctx, ref)
	case req.KeepFiles && req.Limits != nil:
		return ResetResult{}, &ArgumentError{Argument: "limits", Message: "limits and keep_files cannot be combined: new limits need a new sandbox, and the files go with the old one. Fetch what is needed with file_read, then leave keep_files out."}
	}
	s, err := m.enter(ctx, ref, begins)
	if err != nil {
		return ResetResult{}, err
	}
	defer func() {
		if err == nil {
			s.forget()
		}
		res.Begun = s.begun
		s.leave(ctx, err)
	}()
	if req.Limits != nil {
		k, err := s.renew(ctx, *req.Limits)
		if err != nil {
			return ResetResult{}, err
		}
		return ResetResult{Session: s.handle, SandboxID: k.sandbox.ID()}, nil
	}
	return s.reset(ctx, req)
}

// closeSession ends a session because its client wants no more of it.
func (m *Manager) closeSession(ctx context.Context, ref Ref) (ResetResult, error) {
	s, err := m.enter(ctx, ref, needs)
	if err != nil {
		return ResetResult{}, err
	}
	if s == nil {
		return ResetResult{}, &ArgumentError{Argument: "close", Message: "There is no session to close: none has begun yet."}
	}
	defer s.leave(ctx, nil)
	// Once begun it is not called back: half a session is of no use.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := m.end(ctx, s.session, EndClosed, closedByClient); err != nil {
		return ResetResult{}, &SandboxError{Message: "The session has ended, but its sandbox did not close in time; it is cleared away later.", Lost: true, Err: err}
	}
	return ResetResult{Session: s.handle, Closed: true}, nil
}

// reset gives a fresh interpreter in the sandbox that is there.
func (s *session) reset(ctx context.Context, req ResetRequest) (ResetResult, error) {
	k, err := s.kernel(ctx)
	if err != nil {
		return ResetResult{}, err
	}
	if ctx.Err() != nil {
		return ResetResult{}, context.Cause(ctx)
	}
	err = s.resetIn(ctx, k, req.KeepFiles)
	replaced := err != nil
	if replaced {
		// The sandbox itself does not answer: a new one is a reset too,
		// only the files are lost with it.
		s.m.log.WarnContext(ctx, "reset by a new sandbox", slog.String("session", s.label), slog.Any("error", err))
		k.markGone(err)
		if k, err = s.kernel(ctx); err != nil {
			return ResetResult{}, err
		}
		if req.KeepFiles && ctx.Err() == nil {
			s.takeLoss()
			return ResetResult{}, &SandboxError{
				Message: "The sandbox did not answer and was replaced: the interpreter is fresh, and the files of the workspace are gone too. Make them again.",
				Lost:    true, Err: err,
			}
		}
	}
	s.mu.Lock()
	s.cells = 0
	s.settleLoss(ctx, req.KeepFiles, replaced)
	s.mu.Unlock()
	return ResetResult{Session: s.handle, SandboxID: k.sandbox.ID()}, nil
}

// lateReset tells of a reset whose call was given up, so that its answer may
// not have been read.
func lateReset(keepFiles bool) string {
	if keepFiles {
		return "a session_reset was cancelled too late; variables are gone, files are kept"
	}
	return "a session_reset was cancelled too late; variables and files of the workspace are gone"
}

// resetIn lets the sandbox reset itself. Once asked it cannot be called back,
// so the end of ctx does not leave its answer unread.
func (s *session) resetIn(ctx context.Context, k *kernel, keepFiles bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetTimeout)
	defer cancel()
	if err := k.conn.Reset(ctx, keepFiles); err != nil {
		return err
	}
	if keepFiles {
		return nil
	}
	return s.relink(ctx, k)
}

// Info describes a session without running user code and without starting
// anything for it.
func (m *Manager) Info(ctx context.Context, ref Ref) (Info, error) {
	s, err := m.enter(ctx, ref, looks)
	if err != nil {
		return Info{}, err
	}
	defer s.leave(ctx, nil)
	base, err := s.base(ctx)
	if err != nil {
		return Info{}, m.startError(err)
	}
	l, own := base.Spec.Limits, s.ownLimits()
	info := Info{
		Session: s.handle, Name: s.place.name, Engine: base.Engine.Name(), Environment: base.Environment,
		ExposedPaths: []Exposure{}, Variables: []Variable{},
		Limits: map[string]any{
			"memory_bytes": l.MemoryBytes, "cpus": l.CPUs, "pids": l.PIDs, "disk_bytes": l.DiskBytes,
			"timeout_seconds":     orElse(own.Timeout, m.opts.Timeout).Seconds(),
			"max_timeout_seconds": orElse(own.Timeout, m.opts.MaxTimeout).Seconds(),
			"max_output_bytes":    orElse(own.MaxOutput, m.opts.MaxOutput),
			"network":             networkName(base.Spec.Network),
		},
	}
	for _, mount := range base.Spec.Mounts {
		info.ExposedPaths = append(info.ExposedPaths, Exposure{HostPath: mount.Host, SandboxPath: mount.Sandbox, Mode: mount.Mode.String(), Live: true})
	}
	m.mu.Lock()
	info.Others = m.own(s.owner, s.session)
	m.mu.Unlock()
	s.mu.Lock()
	b := s.boot
	info.IsRunning, info.IdleSeconds = s.run.running(), s.idleFor().Seconds()
	for _, e := range s.exposures {
		info.ExposedPaths = append(info.ExposedPaths, e.Exposure)
	}
	s.mu.Unlock()
	s.describe(ctx, b, &info)
	return info, nil
}

func networkName(n sandbox.Network) string {
	if n == sandbox.NetworkFull {
		return "full"
	}
	return "none"
}

// describe adds what only a live sandbox can tell.
func (s *session) describe(ctx context.Context, b *boot, info *Info) {
	info.Note = "The sandbox starts with the first call that needs it."
	if b == nil {
		return
	}
	select {
	case <-b.done:
	default:
		info.Note = "The sandbox is being started."
		return
	}
	if b.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	k := b.kernel
	info.Note, info.SandboxID = "", k.sandbox.ID()
	if st, err := k.sandbox.Stats(ctx); err == nil {
		info.MemoryBytes = st.MemoryBytes
	} else {
		s.m.log.DebugContext(ctx, "sandbox statistics", slog.Any("error", err))
	}
	reply, err := k.conn.Inspect(ctx, maxVariables)
	var refused *pyagent.RequestError
	switch {
	case err == nil:
	case errors.As(err, &refused) && refused.Code == "busy":
		info.Note = "Variables are not listed while code runs."
		return
	default:
		info.Note = "Variables could not be listed: the interpreter does not answer."
		return
	}
	for _, v := range reply.Variables[:min(len(reply.Variables), maxVariables)] {
		info.Variables = append(info.Variables, Variable{
			Name: cut(valid([]byte(v.Name)), 100), Type: cut(valid([]byte(v.Type)), 100), Summary: cut(valid([]byte(v.Summary)), 200),
		})
	}
	if reply.More > 0 {
		info.Note = fmt.Sprintf("%d more variables are not listed.", reply.More)
	}
}

// startError says in one sentence why there is no sandbox.
func (m *Manager) startError(err error) error {
	if errors.Is(err, ErrUnknown) || errors.Is(err, ErrClosed) || errors.Is(err, ErrTooMany) {
		return err
	}
	var argument *ArgumentError
	var told *SandboxError
	if errors.As(err, &argument) || errors.As(err, &told) {
		return err
	}
	if fault, ok := errors.AsType[*sandbox.FaultError](err); ok {
		return &SandboxError{Message: "The sandbox could not be started: " + cut(fault.Text, 600) + ".", Err: err}
	}
	text := "The sandbox could not be started: " + err.Error()
	remedy := "Run `biocage doctor` on the server's machine."
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text, remedy = fmt.Sprintf("The sandbox was not ready within %s", m.opts.StartTimeout), "Try again; if it stays so, run `biocage doctor` on the server's machine."
	case errors.Is(err, sandbox.ErrExhausted):
		remedy = "Free disk or memory on the server's machine, or end other sessions."
	}
	return &SandboxError{Message: cut(text, 600) + ". " + remedy, Err: err}
}
