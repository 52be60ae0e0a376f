package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/biocypher/biocage-mcp/environment"
	"github.com/biocypher/biocage-mcp/internal/spell"
	"github.com/biocypher/biocage-mcp/sandbox"
)

const envHelp = `The Python environments that sandboxes start from.

  env build [FLAGS]         build one, or do nothing when it is up to date
    --name NAME             its name ("default")
    --from pyproject.toml   its packages (those that ship with the program)
    --base auto|registry|docker|debootstrap
    --image IMAGE           the base image
    --mirror URL            where debootstrap gets packages
    --refresh               make the base anew
  env list                  show them
  env remove NAME           remove one
`

func runEnv(ctx context.Context, p process, args []string) error {
	globals, args, err := leadingGlobals(args)
	if err != nil {
		return err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	rest := func() []string { return append(globals, args[1:]...) }
	switch name {
	case "build":
		return envBuild(ctx, p, rest())
	case "list":
		return envList(ctx, p, rest())
	case "remove":
		return envRemove(ctx, p, rest())
	case "-h", "-help", "--help", "help":
		_, err := fmt.Fprintf(p.stdout, "Usage: biocage env build|list|remove [FLAGS]\n\n%s\nFlags of every command:\n%s", envHelp, globalHelp)
		return err
	case "":
		return usageError{"env needs to be told what: build, list or remove (biocage env --help)"}
	}
	text := fmt.Sprintf("env cannot %q", name)
	if near := spell.Nearest(name, []string{"build", "list", "remove"}); near != "" {
		return usageError{text + "; did you mean " + near + "?"}
	}
	return usageError{text + "; it can build, list and remove"}
}

// envHost is the host that the flags describe.
func envHost(p process, f *flagSet) (host, error) {
	cfg, err := f.load(p)
	return host{p: p, cfg: cfg, log: newLogger(p.stderr, cfg.Log)}, err
}

// envStore opens the store, with the Docker daemon where one answers and is
// not ruled out. The result must be closed.
func envStore(ctx context.Context, h host) (*environment.Store, io.Closer, error) {
	cfg := h.cfg
	if cfg.Engine != "gvisor" {
		d, err := h.checkedDocker(ctx)
		if err == nil {
			store, err := h.store(d)
			return store, d, err
		}
		if fault, ok := errors.AsType[*sandbox.FaultError](err); ok && cfg.Engine == "docker" {
			return nil, nil, errors.New(fault.Text) // Docker's own words add nothing
		}
		if cfg.Engine == "docker" {
			return nil, nil, err
		}
	}
	store, err := h.store(nil)
	return store, io.NopCloser(nil), err
}

func envBuild(ctx context.Context, p process, args []string) error {
	f := newFlags("env build", "env build [FLAGS]", envHelp)
	var req environment.BuildRequest
	f.StringVar(&req.Name, "name", "", "")
	f.StringVar(&req.ProjectFile, "from", "", "")
	f.Func("base", "", func(kind string) error {
		if !slices.Contains([]string{environment.BaseAuto, environment.BaseRegistry, environment.BaseDocker, environment.BaseDebootstrap}, kind) {
			return errors.New("use auto, registry, docker or debootstrap")
		}
		req.Base = kind
		return nil
	})
	f.StringVar(&req.Image, "image", "", "")
	f.StringVar(&req.Mirror, "mirror", "", "")
	f.BoolVar(&req.Refresh, "refresh", false, "")
	if done, err := f.parse(p, args); done || err != nil {
		return err
	}
	if err := f.noArguments(); err != nil {
		return err
	}
	h, err := envHost(p, f)
	if err != nil {
		return err
	}
	store, closer, err := envStore(ctx, h)
	if err != nil {
		return err
	}
	display := newProgress(p.stderr)
	req.Progress = display.show
	begin := time.Now()
	env, err := store.Build(ctx, req)
	err = h.dataFault(err)
	if errors.Is(err, environment.ErrName) {
		err = usageError{err.Error()}
	}
	display.end()
	image := ""
	if err == nil {
		image, err = publish(ctx, h, store, env)
	}
	if err = errors.Join(err, closer.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s is ready: Python %s, %d packages, %s, in %s\n",
		env.Name, env.Version, len(env.Packages), sizeText(env.Size), time.Since(begin).Round(time.Second))
	if image != "" {
		_, imageErr := fmt.Fprintln(p.stdout, "as an image, without a server: docker run --rm -i "+image)
		err = errors.Join(err, imageErr)
	}
	for _, note := range env.Notes {
		_, noteErr := fmt.Fprintln(p.stdout, "note: "+note)
		err = errors.Join(err, noteErr)
	}
	return err
}

// publish makes the image for use by hand where a Docker daemon is used, and
// tells its name.
func publish(ctx context.Context, h host, store *environment.Store, env environment.Environment) (string, error) {
	agent, err := h.agent(ctx)
	if err != nil {
		return "", err
	}
	switch err := errors.Join(store.Publish(ctx, env, agent.Dir), agent.Close()); {
	case errors.Is(err, environment.ErrNoDocker):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("the environment is ready, but not as an image: %w", err)
	}
	return environment.HandImage(env.Name), nil
}

func envList(ctx context.Context, p process, args []string) error {
	f := newFlags("env list", "env list", envHelp)
	if done, err := f.parse(p, args); done || err != nil {
		return err
	}
	if err := f.noArguments(); err != nil {
		return err
	}
	h, err := envHost(p, f)
	if err != nil {
		return err
	}
	store, closer, err := envStore(ctx, h)
	if err != nil {
		return err
	}
	all, err := store.List()
	if err = errors.Join(err, closer.Close()); err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(p.stdout, "no environment has been built; run: biocage env build")
		return err
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	lines := []string{"NAME\tPYTHON\tPACKAGES\tSIZE\tBUILT\tBASE"}
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%d\t%s\t%s\t%s",
			e.Name, e.Version, len(e.Packages), sizeText(e.Size), e.Created.Local().Format("2006-01-02 15:04"), e.Base))
	}
	_, err = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return errors.Join(err, w.Flush())
}

func envRemove(ctx context.Context, p process, args []string) error {
	f := newFlags("env remove", "env remove NAME", envHelp)
	names, done, err := f.parseMixed(p, args)
	if done || err != nil {
		return err
	}
	if len(names) != 1 {
		return usageError{"env remove takes one name; biocage env list shows them"}
	}
	name := names[0]
	h, err := envHost(p, f)
	if err != nil {
		return err
	}
	store, closer, err := envStore(ctx, h)
	if err != nil {
		return err
	}
	err = errors.Join(h.dataFault(store.Remove(ctx, name)), closer.Close())
	switch {
	case errors.Is(err, environment.ErrName):
		return usageError{err.Error()}
	case errors.Is(err, environment.ErrNotBuilt):
		return fmt.Errorf("there is no environment %q; biocage env list shows them", name)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintln(p.stdout, "removed "+name)
	return err
}

func sizeText(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }
