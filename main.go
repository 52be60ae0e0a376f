// Biocage gives a language model an isolated, persistent Python interpreter.
//
// This package is the command line: it reads flags, environment variables and
// the configuration file, wires the packages together, and owns signals and
// exit codes. Nothing else reads the process's environment. It has one file a
// command, main.go with the dispatch, and wiring.go with what commands share.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/biocypher/biocage-mcp/internal/spell"
	"github.com/biocypher/biocage-mcp/sandbox/gvisor"
)

// Exit codes beside those of the code that ran.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// A process is what a command sees of the world.
type process struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string
}

// A command is one word of the command line.
type command struct {
	name    string
	summary string
	run     func(ctx context.Context, p process, args []string) error
}

func commands() []command {
	return []command{
		{"serve", "the MCP server (the default)", runServe},
		{"run", "run one script in a fresh sandbox", runOnce},
		{"env", "build, list or remove Python environments", runEnv},
		{"install", "plug it into a host: Claude, VS Code, Cursor, Codex, Gemini", runInstall},
		{"uninstall", "take it out of a host again", runUninstall},
		{"doctor", "see what works on this machine", runDoctor},
		{"version", "print the version", runVersion},
	}
}

func main() {
	gvisor.Dispatch() // first of all: this process may be a part of gVisor
	// A client that goes away must be an error of a write, not the end of the
	// process before its sandboxes are gone.
	signal.Ignore(syscall.SIGPIPE)
	if isJanitor(os.Args) {
		os.Exit(janitorMain(context.Background(), process{stdin: os.Stdin, environ: os.Environ()}, os.Args[1]))
	}
	os.Exit(run(context.Background(), process{os.Stdin, os.Stdout, os.Stderr, os.Environ()}, os.Args[1:]))
}

// run runs one command line and returns its exit code. The first signal ends
// the command in order, the second at once.
func run(ctx context.Context, p process, args []string) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			cancel(signalError{s})
		case <-ctx.Done():
			return
		}
		if s, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(128 + int(s))
		}
	}()
	return exitCode(p, dispatch(ctx, p, args))
}

// A signalError is why the context ended.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "received signal: " + e.signal.String() }

// An exitError ends the process with a code and no more words.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// A usageError is a command line that cannot be run.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// exitCode tells an error, if it has not been told, and gives its code.
func exitCode(p process, err error) int {
	var (
		exit  exitError
		usage usageError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage):
		fmt.Fprintln(p.stderr, "biocage: "+usage.text) //nolint:errcheck // nobody is left to be told
		return exitUsage
	}
	fmt.Fprintln(p.stderr, "biocage: "+err.Error()) //nolint:errcheck // nobody is left to be told
	return exitFailure
}

// dispatch finds the command. Global flags may stand before it; without one
// the server is meant.
func dispatch(ctx context.Context, p process, args []string) error {
	globals, rest, err := leadingGlobals(args)
	if err != nil {
		return err
	}
	name := "serve"
	switch {
	case len(rest) > 0 && slices.Contains([]string{"help", "-h", "-help", "--help"}, rest[0]):
		return printUsage(p)
	case len(rest) > 0 && rest[0] == "--version":
		name, rest = "version", rest[1:]
	case len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		name, rest = rest[0], rest[1:]
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return usageError{unknownCommand(name)}
	}
	return all[i].run(ctx, p, append(globals, rest...))
}

func unknownCommand(name string) string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	text := fmt.Sprintf("unknown command %q", name)
	if near := spell.Nearest(name, names); near != "" {
		return text + "; did you mean " + near + "?"
	}
	return text + "; the commands are " + strings.Join(names, ", ")
}

func printUsage(p process) error {
	var b strings.Builder
	b.WriteString("Usage: biocage [COMMAND] [FLAGS]\n\nAn isolated, persistent Python interpreter for language models.\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-9s %s\n", c.name, c.summary)
	}
	b.WriteString("\nFlags of every command:\n" + globalHelp + "\nbiocage COMMAND --help tells more.\n")
	_, err := io.WriteString(p.stdout, b.String())
	return err
}
