package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/biocypher/biocage-mcp/environment"
	"github.com/biocypher/biocage-mcp/internal/serve"
	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

// drain is how long cancelled calls may take to end; with closeTimeout it
// keeps the whole end of the server below five seconds.
const drain = time.Second

const serveHelp = `Serve the Model Context Protocol on standard input and output, or over HTTP.
Logs go to standard error. The server ends with its input, or with SIGINT,
SIGTERM or SIGHUP; a second signal ends it at once.

  --transport stdio|http    http serves many clients, at /mcp (docs/http.md)
  --listen HOST:PORT        for http; 127.0.0.1:8765 by default

Arguments are folders that file_expose may reach, read-only, instead of those of
the configuration (expose.roots).
`

func runServe(ctx context.Context, p process, args []string) error {
	f := newFlags("serve", "[serve] [FLAGS] [FOLDER...]", serveHelp)
	f.runs = true
	f.key("transport", "server.transport")
	f.key("listen", "server.listen")
	folders, done, err := f.parseMixed(p, args)
	if done || err != nil {
		return err
	}
	if err := f.roots(folders); err != nil {
		return err
	}
	cfg, err := f.load(p)
	if err != nil {
		return err
	}
	if _, given := f.values["server.listen"]; given && cfg.Server.Transport != "http" {
		return usageError{"--listen needs --transport http; without it the server talks on standard input and output"}
	}
	h := host{p: p, cfg: cfg, file: f.file, log: newLogger(p.stderr, cfg.Log)}
	return h.serve(ctx)
}

// roots takes the arguments for expose.roots. They are chosen in dialogues, so
// the name of a folder must not widen what is meant; an empty one is a choice
// that was not made.
func (f *flagSet) roots(folders []string) error {
	var roots []string
	for _, folder := range folders {
		switch {
		case folder == "":
		case !filepath.IsAbs(folder):
			return usageError{fmt.Sprintf("serve takes folders by their absolute paths, which %q is not (biocage serve --help)", folder)}
		case strings.Contains(folder, ","):
			return usageError{fmt.Sprintf("the folder %q has a comma in its name; name it in the configuration file, below expose.roots", folder)}
		default:
			roots = append(roots, folder+":ro")
		}
	}
	if len(roots) > 0 {
		f.values["expose.roots"] = strings.Join(roots, ",")
	}
	return nil
}

func (h host) serve(ctx context.Context) error {
	transport, err := h.transport(ctx)
	if err != nil {
		return err
	}
	key, err := h.handleKey(ctx)
	if err != nil {
		return err
	}
	watch, err := h.watch(ctx)
	if err != nil {
		return err
	}
	c, err := newCage(ctx, h, newBaseMaker(h), func(o *session.Options) {
		o.HandleKey = key
		watch.adjust(o)
	})
	if err != nil {
		return errors.Join(err, watch.Close(ctx))
	}
	watch.cage.Store(c)
	opts := tools.Options{
		Packages:    h.packagesLine(),
		Network:     h.cfg.Sandbox.Network == "full",
		MaxTimeout:  h.cfg.Run.MaxTimeout.Std(),
		Structured:  h.cfg.Output.Structured,
		ClientRoots: h.cfg.Expose.ClientRoots,
		Observers:   watch.tools,
		Logger:      h.log,
	}
	mcpServer := serve.NewServer(serve.Options{
		Version:      buildVersion(),
		Tools:        tools.All(c.Manager, opts),
		Templates:    tools.Templates(c.Manager, opts),
		Resources:    tools.Resources(c.Manager, opts),
		Prompts:      tools.Prompts(c.Manager, opts),
		Completions:  tools.Completions(c.Manager, opts),
		Instructions: func() string { return instructions(c.Engine(), h.cfg.Environment, opts.Network) },
		OnBegin:      func(string) { watch.metrics.ConnectionBegan() },
		OnEnd: func(connection string) {
			watch.metrics.ConnectionEnded()
			c.Disconnect(connection)
		},
		// Refused calls are calls.
		OnUnknownTool: tools.Unknown(opts),
	})
	c.Prepare() //nolint:contextcheck // the pool outlives every request
	err = transport(ctx, mcpServer, watch)
	if cause := context.Cause(ctx); cause != nil {
		h.log.InfoContext(ctx, "ending", "reason", cause.Error())
	}
	return errors.Join(err, c.endServer(ctx, h.log, closeTimeout), watch.Close(ctx))
}

// transport makes ready what carries the messages. An address that cannot be
// listened on is told before anything is started.
func (h host) transport(ctx context.Context) (func(context.Context, *server.MCPServer, *watch) error, error) {
	if h.cfg.Server.Transport == "http" {
		if err := checkPair(h.cfg.Server); err != nil {
			return nil, err
		}
		l, err := h.listen(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *server.MCPServer, w *watch) error { return h.serveHTTP(ctx, l, s, w) }, nil
	}
	return func(ctx context.Context, s *server.MCPServer, _ *watch) error {
		h.log.InfoContext(ctx, "serving", "transport", "stdio", "version", buildVersion())
		stdio := &serve.Stdio{Server: s, In: h.p.stdin, Out: h.p.stdout, Log: h.log, Drain: drain}
		return stdio.Serve(ctx)
	}, nil
}

// instructions is what a host may tell its model of this server. The engine
// is left out until it is known.
func instructions(engine, environment string, network bool) string {
	text := "Python in an isolated sandbox of your own. State stays between python_run calls; after a failure the answer says what was kept."
	if engine != "" {
		text += fmt.Sprintf(" Engine: %s; environment: %s.", engine, environment)
	}
	if network {
		text += " The network is on: code can reach other machines, and pip install works for the session."
	}
	return text
}

// maxPackagesLine bounds what the list of packages costs in every conversation.
const maxPackagesLine = 160

// packagesLine names what a model most probably wants of the environment.
// Finding it reads one small file, so a start is not delayed.
func (h host) packagesLine() string {
	store, err := h.store(nil)
	if err != nil {
		return ""
	}
	env, err := store.Find(h.cfg.Environment)
	if err != nil {
		return "" // the first call says what to do
	}
	return packagesLine(env.Packages)
}

func packagesLine(packages []environment.Package) string {
	rank := func(name string) int {
		known := []string{
			"numpy", "pandas", "scipy", "scikit-learn", "matplotlib", "seaborn", "pillow", "openpyxl", "pyarrow", "requests",
			"polars", "statsmodels", "sympy", "networkx", "torch", "tensorflow", "jax", "biopython", "scanpy", "beautifulsoup4", "lxml",
		}
		if i := slices.Index(known, name); i >= 0 {
			return i
		}
		return len(known)
	}
	names := make([]string, 0, len(packages))
	for _, p := range packages {
		names = append(names, strings.ToLower(p.Name))
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	line := ""
	for i, name := range names {
		next := strings.TrimPrefix(line+", "+name, ", ")
		if len(next) > maxPackagesLine || rank(name) == rank("") && i >= 12 {
			return fmt.Sprintf("%s and %d more", line, len(names)-i)
		}
		line = next
	}
	return line
}
