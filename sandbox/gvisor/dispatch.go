//go:build linux && (amd64 || arm64)

package gvisor

import (
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"

	"github.com/biocypher/biocage-mcp/sandbox/usernet"
)

// hiddenArg as first argument makes the program behave as runsc, for people
// who debug ("biocage __gvisor --root=... state ID") and for tests.
const hiddenArg = "__gvisor"

// Names under which gVisor starts helper programs beside itself.
const (
	sentryName    = "gvisor_sentry"
	prewarmerName = "gvisor-sentry-prewarmer"
)

// exitDispatch is the exit code when a part of gVisor could not even start.
const exitDispatch = 128

// part says which part of gVisor a process was started as.
type part int

const (
	partNone    part = iota // the ordinary program
	partRunsc               // one of gVisor's commands
	partPrewarm             // executes its arguments
	partProbe               // the first process of Check's sandbox
	partNetwork             // carries the network of one sandbox
)

// Dispatch must be the first thing that main does. In a process that gVisor
// started it runs that part of gVisor and never returns; otherwise it returns
// at once.
func Dispatch() {
	kind, args := classify(os.Args)
	switch kind {
	case partNone:
		return
	case partProbe:
		os.Exit(probeExit) //nolint:forbidigo // this process is not the program
	case partNetwork:
		if err := usernet.Serve(os.Stdin, os.NewFile(networkLink, "link")); err != nil {
			fail("the network of a sandbox: " + err.Error())
		}
		os.Exit(0) //nolint:forbidigo // this process is not the program
	case partPrewarm:
		// Upstream's prewarmer touches pages ahead of the sentry; ours only
		// has to become it.
		err := syscall.Exec(args[0], args[1:], os.Environ()) //nolint:gosec // that is what a prewarmer does; gVisor named the program
		fail("cannot execute " + args[0] + ": " + err.Error())
	case partRunsc:
		os.Args = bootArgs(args)
		guardHostFiles(os.Args)
		registerPrecompiled(os.Args)
		cli.Run(nil, commands(), nil)
	}
	fail("a part of gVisor came back instead of ending")
}

// guardHostFiles keeps the parts that touch the host's files for a sandbox from
// making set-user-id programs of them.
func guardHostFiles(args []string) {
	if !slices.Contains(args, "boot") && !slices.Contains(args, "gofer") {
		return
	}
	if err := refuseSpecialBits(); err != nil {
		fail(err.Error()) // never without it
	}
}

// classify decides by argv alone: gVisor empties the environment of its parts.
func classify(argv []string) (part, []string) {
	if len(argv) == 0 {
		return partNone, nil
	}
	name := path.Base(argv[0])
	switch {
	case name == prewarmerName && len(argv) > 2:
		return partPrewarm, argv[1:]
	case name == sentryName, argv[0] == "/proc/self/exe":
		return partRunsc, argv
	case argv[0] == probePath:
		return partProbe, nil
	case argv[0] == networkName:
		return partNetwork, nil
	case strings.HasPrefix(name, "runsc"):
		return partRunsc, argv
	case len(argv) > 1 && argv[1] == hiddenArg:
		return partRunsc, append([]string{"runsc"}, argv[2:]...)
	}
	return partNone, nil
}

// commands are those that gVisor itself starts, and two to look at what runs.
func commands() map[util.SubCommand]string {
	return map[util.SubCommand]string{
		new(sentrycmd.Boot):   "internal",
		new(cmd.Gofer):        "internal",
		new(sentrycmd.Umount): "internal",
		new(cmd.State):        "",
		new(cmd.Debug):        "",
	}
}

func fail(message string) {
	_, _ = os.Stderr.WriteString("biocage: gVisor: " + message + "\n")
	os.Exit(exitDispatch) //nolint:forbidigo // this process is not the program
}
