// Command demo plays a model's conversation with the server, as an MCP host
// does: it starts `biocage serve` over standard input and output, analyses a
// real table step by step, stops the server and looks for what is left.
//
//	go run ./examples/demo [BIN] [--engine auto|docker|gvisor] [--out DIR]
//
// It prints each call and answer as a person wants to read them. It is a test
// as well: it ends with exit code 1 when anything differs from what it must be.
//
// A [server] owns the process, a [tour] owns the story, a [screen] owns what
// is printed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"
)

type options struct {
	binary string
	engine string
	out    string
	data   string

	runtimeDir string // XDG_RUNTIME_DIR
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv("XDG_RUNTIME_DIR"), newScreen(os.Stdout, look()), os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errDiffers):
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(2)
	}
}

// look tells how wide the terminal is and whether it takes colours.
func look() style {
	fd := int(os.Stdout.Fd())
	if !term.IsTerminal(fd) {
		return style{width: defaultWidth}
	}
	width, _, err := term.GetSize(fd)
	if err != nil {
		width = defaultWidth
	}
	return style{width: width, colour: os.Getenv("NO_COLOR") == ""}
}

func run(ctx context.Context, args []string, runtimeDir string, scr *screen, stderr io.Writer) error {
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	opts.runtimeDir = runtimeDir
	if err := os.MkdirAll(opts.out, 0o755); err != nil { //nolint:gosec // figures for people to open
		return fmt.Errorf("cannot make the output directory: %w", err)
	}
	srv, err := start(ctx, opts)
	if err != nil {
		return err
	}
	tour := &tour{srv: srv, scr: scr, opts: opts}
	err = errors.Join(tour.play(ctx), tour.finish(ctx))
	scr.table(tour.rows)
	if err != nil {
		return fmt.Errorf("%w (the server's log is %s)", err, srv.logPath)
	}
	scr.verdict(opts.out)
	return nil
}

// parse takes the binary before or after the flags.
func parse(args []string, stderr io.Writer) (options, error) {
	opts := options{binary: filepath.Join("bin", "biocage")}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.engine, "engine", "auto", "what isolates the sandbox: auto, docker or gvisor")
	flags.StringVar(&opts.out, "out", filepath.Join("build", "demo"), "where the figure and the table are saved")
	flags.StringVar(&opts.data, "data", filepath.Join("examples", "data"), "the directory with penguins.csv")
	var names []string
	for len(args) > 0 {
		if !strings.HasPrefix(args[0], "-") {
			names, args = append(names, args[0]), args[1:]
			continue
		}
		if err := flags.Parse(args); err != nil {
			return options{}, err
		}
		args = flags.Args()
	}
	if len(names) > 1 {
		return options{}, fmt.Errorf("one binary at most is wanted, not %s", strings.Join(names, " and "))
	}
	if len(names) == 1 {
		opts.binary = names[0]
	}
	var errs [3]error
	opts.binary, errs[0] = filepath.Abs(opts.binary)
	opts.out, errs[1] = filepath.Abs(opts.out)
	opts.data, errs[2] = filepath.Abs(opts.data)
	return opts, errors.Join(errs[:]...)
}
