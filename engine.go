package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/biocypher/biocage-mcp/environment"
	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/pyagent"
	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/docker"
	"github.com/biocypher/biocage-mcp/sandbox/gvisor"
)

// A host is what commands know of this machine: where things are kept and how
// engines are made.
type host struct {
	p    process
	cfg  config.Config
	file configFile
	log  *slog.Logger
}

func (h host) dataDir() string {
	if h.cfg.DataDir != "" {
		return h.cfg.DataDir
	}
	return environment.DefaultDataDir(os.Geteuid(), h.p.getenv)
}

// runDir is for what lives as long as sandboxes: short, because sockets are
// below it, and on a tmpfs where there is one.
func (h host) runDir() string {
	uid := os.Geteuid()
	if uid == 0 {
		return "/run/biocage"
	}
	if dir := h.p.getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && len(dir)+len("/biocage") <= gvisor.MaxRunDir {
		return filepath.Join(dir, "biocage")
	}
	return filepath.Join("/tmp", "biocage-"+strconv.Itoa(uid))
}

func (h host) docker() (*docker.Engine, error) {
	opts := docker.Options{Host: h.p.getenv("DOCKER_HOST"), Version: buildVersion(), Log: h.log}
	if h.p.getenv("DOCKER_TLS_VERIFY") != "" {
		opts.TLSDir = h.p.getenv("DOCKER_CERT_PATH")
	}
	return docker.New(opts)
}

func (h host) gvisor() (*gvisor.Engine, error) {
	return gvisor.New(gvisor.Options{RunDir: h.runDir(), Logger: h.log})
}

// store opens the environments; d may be nil.
func (h host) store(d *docker.Engine) (*environment.Store, error) {
	opts := environment.Options{DataDir: h.dataDir(), Logger: h.log, Environ: h.p.environ}
	if opts.DataDir != environment.MachineDataDir && h.cfg.DataDir == "" {
		opts.Shared = environment.MachineDataDir // what root has built serves everybody
	}
	if d != nil {
		opts.Docker = d
	}
	store, err := environment.Open(opts)
	return store, h.dataFault(err)
}

// agent is the directory with the agent's code for sandboxes, held until it is
// closed. What other versions left there and nobody uses is removed.
func (h host) agent(ctx context.Context) (*pyagent.Installed, error) {
	dir := filepath.Join(h.dataDir(), "agent")
	installed, err := pyagent.Install(dir)
	if err != nil {
		return nil, h.dataFault(err)
	}
	if err := pyagent.Clean(dir); err != nil {
		h.log.WarnContext(ctx, "unused agents were not removed", "error", err)
	}
	return installed, nil
}

// dataFault adds what to do to an error about something below the data
// directory that this user may not do, as when it belongs to somebody else.
func (h host) dataFault(err error) error {
	var path *fs.PathError
	dir := h.dataDir()
	switch {
	case !errors.As(err, &path), !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS):
		return err
	case !strings.HasPrefix(dir+"/", path.Path+"/") && !strings.HasPrefix(path.Path, dir+"/"):
		return err
	}
	return dataError{dir: dir, err: err}
}

// A dataError is a data directory that cannot be used by this user.
type dataError struct {
	dir string
	err error
}

// Error implements error.
func (e dataError) Error() string {
	return fmt.Sprintf("data_dir (%s) cannot be used by this user: %s: %s", e.dir, e.err, e.remedy())
}

func (e dataError) Unwrap() error { return e.err }

func (e dataError) remedy() string {
	return "make " + e.dir + " writable for this user, or set data_dir (" + config.EnvName("data_dir") + ") to a directory that is"
}

// A chosen engine comes with the reason for the choice.
type chosen struct {
	engine sandbox.Engine
	docker *docker.Engine // the same, when it is Docker
	reason string
}

// choose finds the engine that the configuration asks for; auto is Docker when
// it answers, else gVisor.
func (h host) choose(ctx context.Context) (chosen, error) {
	var dockerErr error
	if h.cfg.Engine != "gvisor" {
		d, err := h.checkedDocker(ctx)
		if err == nil {
			return chosen{d, d, reason(h.cfg.Engine, "a Docker daemon answers")}, nil
		}
		if ctx.Err() != nil { // that it did not answer tells nothing
			return chosen{}, fmt.Errorf("choose the engine: %w", context.Cause(ctx))
		}
		if h.cfg.Engine == "docker" {
			return chosen{}, fmt.Errorf("the engine docker cannot be used: %w", err)
		}
		dockerErr = err
	}
	g, err := h.gvisor() //nolint:contextcheck // making the engine starts nothing
	switch {
	case err == nil:
		return chosen{g, nil, reason(h.cfg.Engine, "no Docker daemon answers")}, nil
	case dockerErr == nil:
		return chosen{}, fmt.Errorf("the engine gvisor cannot be used: %w", err)
	}
	return chosen{}, fmt.Errorf("no engine can be used here: start Docker, or run on Linux where gVisor works: %w", errors.Join(dockerErr, err))
}

func reason(asked, found string) string {
	if asked == "auto" {
		return found
	}
	return "the configuration asks for it"
}

// checkedDocker makes the Docker engine and sees that its daemon answers.
func (h host) checkedDocker(ctx context.Context) (*docker.Engine, error) {
	d, err := h.docker()
	if err != nil {
		return nil, err
	}
	if err := d.Check(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}
