package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/environment"
	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/session"
)

const doctorHelp = `See what works on this machine and what to do about the rest. Each engine that
can be used runs a real sandbox; the exit code is 0 when at least one did.
--engine docker|gvisor looks at one engine only.
`

func runDoctor(ctx context.Context, p process, args []string) error {
	f := newFlags("doctor", "doctor", doctorHelp)
	f.runs = true
	if done, err := f.parse(p, args); done || err != nil {
		return err
	}
	if err := f.noArguments(); err != nil {
		return err
	}
	if f.values["log.level"] == "" && p.getenv("BIOCAGE_LOG_LEVEL") == "" {
		f.values["log.level"] = "error" // what is wrong is in the checks
	}
	cfg, err := f.load(p)
	if err != nil {
		return err
	}
	d := doctor{host: host{p: p, cfg: cfg, log: newLogger(p.stderr, cfg.Log)}, out: p.stdout}
	d.ok("platform", fmt.Sprintf("%s/%s, %d processors, user id %d, biocage %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), os.Geteuid(), buildVersion()))
	d.checkDataDir()
	d.checkEnvironment()
	ran := 0
	for _, engine := range compiledEngines() {
		if cfg.Engine != "auto" && cfg.Engine != engine {
			continue
		}
		if d.checkEngine(ctx, engine) {
			ran++
		}
	}
	if ran == 0 {
		fmt.Fprintln(p.stdout, "\nNo sandbox ran.") //nolint:errcheck // the exit code says it too
		return exitError{exitFailure}
	}
	return nil
}

// A doctor prints one check after the other.
type doctor struct {
	host host
	out  io.Writer
}

func (d doctor) ok(name, text string) { d.print("ok", name, text, "") }

func (d doctor) print(word, name, text, remedy string) {
	fmt.Fprintf(d.out, "%-8s %-12s %s\n", word, name, strings.ReplaceAll(text, "\n", "; ")) //nolint:errcheck // nobody is left to be told
	if remedy != "" {
		fmt.Fprintf(d.out, "%-8s %-12s remedy: %s\n", "", "", remedy) //nolint:errcheck // nobody is left to be told
	}
}

func (d doctor) checkDataDir() {
	dir := d.host.dataDir()
	probe := filepath.Join(dir, ".doctor")
	_, err := d.host.store(nil) // makes the directory
	if err == nil {
		err = os.WriteFile(probe, nil, 0o600)
	}
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		d.print("problem", "data", untold(err), dataError{dir: dir}.remedy())
		return
	}
	d.ok("data", dir)
}

func (d doctor) checkEnvironment() {
	name := d.host.cfg.Environment
	store, err := d.host.store(nil)
	if err == nil {
		var env environment.Environment
		if env, err = store.Find(name); err == nil {
			d.ok("environment", fmt.Sprintf("%s: Python %s, %d packages, %s", env.Name, env.Version, len(env.Packages), sizeText(env.Size)))
			return
		}
	}
	if isImage(name) {
		d.ok("environment", name+" is an image, which only the engine docker can use")
		return
	}
	if errors.Is(err, environment.ErrNotBuilt) {
		err = notBuilt(name)
	}
	remedy := "run: " + buildCommand(name)
	if data, ok := errors.AsType[dataError](err); ok {
		remedy = data.remedy()
	}
	d.print("problem", "environment", untold(err), remedy)
}

// untold is an error's text without the remedy, which doctor tells by itself.
func untold(err error) string {
	if data, ok := errors.AsType[dataError](err); ok {
		return data.err.Error()
	}
	if fault, ok := errors.AsType[*sandbox.FaultError](err); ok {
		return fault.Problem()
	}
	return err.Error()
}

// checkEngine runs a sandbox on one engine.
func (d doctor) checkEngine(ctx context.Context, name string) bool {
	begin := time.Now()
	text, err := d.tryEngine(ctx, name)
	if err != nil {
		d.print("problem", name, untold(err), d.remedy(name, err))
		return false
	}
	d.ok(name, fmt.Sprintf("%s, in %.1f s", text, time.Since(begin).Seconds()))
	return true
}

// toldRemedy is the remedy that the error itself tells, or "".
func toldRemedy(err error) string {
	if data, ok := errors.AsType[dataError](err); ok {
		return data.remedy()
	}
	if fault, ok := errors.AsType[*sandbox.FaultError](err); ok {
		return fault.Remedy()
	}
	return ""
}

// remedy is what to do about an engine's error.
func (d doctor) remedy(name string, err error) string {
	if remedy := toldRemedy(err); remedy != "" {
		return remedy
	}
	switch {
	case name == "gvisor" && errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "set XDG_RUNTIME_DIR to a directory of this user's, such as one made with mkdir -m 700, or run as root"
	case errors.Is(err, sandbox.ErrRootMissing):
		return "run: " + buildCommand(d.host.cfg.Environment)
	case name == "gvisor" && errors.Is(err, sandbox.ErrUnavailable):
		return "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or use Docker"
	case errors.Is(err, sandbox.ErrUnsupported):
		return unsupportedRemedy(d.host.cfg.Environment)
	case errors.Is(err, sandbox.ErrExhausted):
		return "free memory or disk on this machine, or lower the limits under sandbox:"
	}
	return "run: biocage --log-level debug --engine " + name + " doctor"
}

// unsupportedRemedy is for a setting that only Docker can follow.
func unsupportedRemedy(environment string) string {
	if isImage(environment) {
		return "start Docker and set engine: docker, or set environment to a name that was built (biocage env list)"
	}
	return "start Docker and set engine: docker, or set sandbox.network: none"
}

// tryEngine runs code that proves an interpreter, its limits and its libraries.
func (d doctor) tryEngine(ctx context.Context, name string) (text string, err error) {
	h := d.host
	h.cfg.Engine = name
	var engine sandbox.Engine
	base := newBaseMaker(h)
	base.pick = func(ctx context.Context) (chosen, error) {
		c, err := h.choose(ctx)
		if err != nil {
			return c, err
		}
		engine = c.engine
		if err := engine.Check(ctx); err != nil {
			return chosen{}, errors.Join(err, engine.Close())
		}
		return c, nil
	}
	c, err := newCage(ctx, h, base, func(o *session.Options) { o.Warm = 0 })
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.end(ctx, patientClose)) }()
	res, err := c.Run(ctx, session.Ref{Connection: "doctor"}, session.RunRequest{Code: "import platform; print(6 * 7, platform.python_version())"})
	if err != nil {
		return "", unwrapSandbox(err)
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(res.Stdout), "42 ")
	if !res.Success || !ok {
		return "", fmt.Errorf("the sandbox ran, but its answer is wrong: %+v", res)
	}
	return fmt.Sprintf("ran Python %s in %s", version, engine.Capabilities().Isolation), nil
}

// unwrapSandbox gives the cause instead of the text for models.
func unwrapSandbox(err error) error {
	var told *session.SandboxError
	if errors.As(err, &told) && told.Err != nil {
		return told.Err
	}
	return err
}
