package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/session"
)

const (
	queueWait    = 10 * time.Second        // one run may hold up the calls behind it so long
	startTimeout = 3 * time.Minute         // an environment may have to be loaded first
	closeTimeout = 3500 * time.Millisecond // of a server, whose client may wait for its end
	patientClose = 15 * time.Second        // of a command that nobody hurries
)

// A cage is a manager with what it was made from.
type cage struct {
	*session.Manager
	base *baseMaker
}

// newCage wires a manager; adjust may change its options.
func newCage(ctx context.Context, h host, base *baseMaker, adjust func(*session.Options)) (*cage, error) {
	roots, mounts, err := exposures(h.cfg.Expose)
	if err != nil {
		return nil, err
	}
	base.mounts = mounts
	r := h.cfg.Run
	opts := session.Options{
		Base:           base.make,
		Timeout:        r.Timeout.Std(),
		MaxTimeout:     r.MaxTimeout.Std(),
		AnswerWithin:   r.AnswerWithin.Std(),
		InterruptGrace: r.InterruptGrace.Std(),
		QueueWait:      queueWait,
		StartTimeout:   startTimeout,
		MaxOutput:      int64(r.MaxOutput),
		StopOnFailure:  r.StopSessionOnFailure,
		IdleTimeout:    h.cfg.Session.IdleTimeout.Std(),
		Grace:          h.cfg.Session.Grace.Std(),
		MaxSessions:    h.cfg.Session.Max,
		MaxEach:        h.cfg.PerPrincipal(),
		Starts:         max(2, runtime.NumCPU()),
		Warm:           h.cfg.Session.Warm,
		Roots:          roots,
		Ask:            h.cfg.Expose.Ask,
		Home:           h.p.getenv("HOME"),
		Private:        h.private(),
		Own:            h.ownFiles(),
		Logger:         h.log,
	}
	if adjust != nil {
		adjust(&opts)
	}
	return &cage{Manager: session.NewManager(ctx, opts), base: base}, nil
}

// private lists this server's own directories, links resolved where they are there.
func (h host) private() []string {
	var places []string
	for _, place := range []string{h.dataDir(), h.runDir()} {
		places = append(places, place)
		if resolved, err := filepath.EvalSymlinks(place); err == nil && resolved != place {
			places = append(places, resolved)
		}
	}
	return places
}

// ownFiles lists what else of this server sandboxes must not have. A project's
// folder commonly holds its configuration, which may be read unless it has
// tokens, and which is never theirs to change.
func (h host) ownFiles() []session.OwnFile {
	config := session.OwnFile{
		Path: absolute(h.file.name), What: "this server's configuration file", Readable: !h.file.secret,
		Remedy: "move that file elsewhere",
	}
	if h.file.secret {
		config.What += " with its tokens"
		config.Remedy += " or put the tokens into BIOCAGE_SERVER_TOKENS"
	}
	return []session.OwnFile{
		config,
		{Path: absolute(h.cfg.Log.Audit), What: "this server's audit log", Remedy: "keep it elsewhere (log.audit)"},
		{Path: absolute(h.cfg.Server.TLSKey), What: "this server's private key", Remedy: "keep it elsewhere (server.tls_key)"},
		{Path: absolute(h.cfg.Server.TokenFile), What: "this server's token", Remedy: "keep it elsewhere (server.token_file)"},
	}
}

// absolute is what a name means now, whatever becomes of the directory.
func absolute(name string) string {
	if name == "" {
		return ""
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	return full
}

// handleKey gives the key of session handles. Where the data directory cannot
// be written, handles are good only as long as this server lives.
func (h host) handleKey(ctx context.Context) ([]byte, error) {
	key, err := session.LoadKey(filepath.Join(h.dataDir(), "handle.key"))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		h.log.WarnContext(ctx, "session handles end with this server: data_dir cannot be used", "error", err)
		return nil, nil
	}
	return key, err
}

// end closes everything, within its bound, also after ctx has ended.
func (c *cage) end(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		return err // the janitor does the rest when this process has ended
	}
	return c.base.Close()
}

// endServer is the end of a server, of which whoever stops it expects that it
// is soon. What has been killed but is not gone in time, as on a machine that
// is busy with other things, is the janitor's, and no failure.
func (c *cage) endServer(ctx context.Context, log *slog.Logger, within time.Duration) error {
	err := c.end(ctx, within)
	if !errors.Is(err, context.DeadlineExceeded) || !c.base.hasJanitor() {
		return err
	}
	log.WarnContext(ctx, "sandboxes were not gone in time; a second process removes what they leave", "waited", within, "error", err)
	return nil
}

// exposures gives what the configuration lets sandboxes see.
func exposures(e config.Expose) ([]session.HostRoot, []session.ExposeRequest, error) {
	var (
		roots  []session.HostRoot
		mounts []session.ExposeRequest
	)
	for _, root := range e.Roots {
		roots = append(roots, session.HostRoot{Path: root.Path, Mode: mode(root.Mode)})
	}
	for _, m := range e.Mounts {
		resolved, err := filepath.EvalSymlinks(m.Host)
		if err != nil {
			return nil, nil, fmt.Errorf("what is to be exposed has gone: %w", err)
		}
		mounts = append(mounts, session.ExposeRequest{HostPath: resolved, SandboxPath: m.Sandbox, Mode: mode(m.Mode)})
	}
	return roots, mounts, nil
}

func mode(word string) sandbox.Mode {
	if word == "rw" {
		return sandbox.ReadWrite
	}
	return sandbox.ReadOnly
}
