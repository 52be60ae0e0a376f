package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/internal/hosts"
)

const installHelp = `Add this program to the servers that a host starts, or change what it starts.
The rest of the host's file stays as it is; a backup is kept beside it.

  --host claude-desktop|claude-code|vscode|cursor|codex|gemini
  --scope user|project      for all projects, or for the one in this directory
  --name NAME               the server's name in the host ("biocage")
  --print                   print what to add, and where, and change nothing
  --dry-run                 say what would be changed, and change nothing

--config, --engine, --log-level and --log-format are passed on to the server, and
so are BIOCAGE_CONFIG, BIOCAGE_ENGINE, BIOCAGE_LOG_LEVEL and BIOCAGE_LOG_FORMAT.
No other variable of this shell is.
`

const uninstallHelp = `Take this program out of the servers that a host starts. A backup of the host's
file is kept beside it.

  --host claude-desktop|claude-code|vscode|cursor|codex|gemini
  --scope user|project      for all projects, or for the one in this directory
  --name NAME               the server's name in the host ("biocage")
  --dry-run                 say what would be changed, and change nothing
`

// An installation is what the flags of install and uninstall ask for.
type installation struct {
	host    hosts.Host
	path    string
	within  string // of a project
	name    string
	show    bool
	dryRun  bool
	server  hosts.Server
	outputs io.Writer
}

func runInstall(_ context.Context, p process, args []string) error {
	in, done, err := parseInstallation(p, "install", installHelp, args)
	if done || err != nil {
		return err
	}
	if err := p.sayNotPassedOn(); err != nil {
		return err
	}
	if in.show {
		if _, err := fmt.Fprintln(p.stderr, "for "+in.path+":"); err != nil {
			return err
		}
		_, err := io.WriteString(p.stdout, in.host.Snippet(in.server))
		return err
	}
	e := edition{word: "added", after: in.host.After}
	return in.edit(&e, func(old []byte) ([]byte, error) {
		made, err := in.host.Set(old, in.server)
		if before, there := in.host.Arguments(old, in.name); err == nil && there {
			e.word, e.dropped = "changed", dropped(before, in.server.Args)
		}
		return made, err
	})
}

func runUninstall(_ context.Context, p process, args []string) error {
	in, done, err := parseInstallation(p, "uninstall", uninstallHelp, args)
	if done || err != nil {
		return err
	}
	e := edition{word: "removed", after: in.host.AfterRemoval()}
	return in.edit(&e, func(old []byte) ([]byte, error) { return in.host.Remove(old, in.name) })
}

// An edition is how a change of a host's file is told.
type edition struct {
	word    string // what became of the server
	dropped string // flags that it is no longer started with
	after   string // what makes the host see the change
}

// dropped gives the flags of before, with their values, that now lacks.
func dropped(before, now []string) string {
	kept := flagsOf(now)
	gone := slices.DeleteFunc(flagsOf(before), func(flag string) bool { return slices.Contains(kept, flag) })
	return strings.Join(gone, " ")
}

// flagsOf joins each flag with its value.
func flagsOf(args []string) []string {
	var flags []string
	for _, arg := range args {
		last := len(flags) - 1
		if last >= 0 && strings.HasPrefix(flags[last], "-") && !strings.HasPrefix(arg, "-") && !strings.ContainsAny(flags[last], " =") {
			flags[last] += " " + arg
			continue
		}
		flags = append(flags, arg)
	}
	return flags
}

// edit changes the host's file and says what became of it; change may set e.
func (in installation) edit(e *edition, change func([]byte) ([]byte, error)) error {
	res, err := hosts.Edit(hosts.Target{Path: in.path, Within: in.within, DryRun: in.dryRun, Now: time.Now()}, change)
	if err != nil {
		return err
	}
	var text string
	switch {
	case !res.Changed:
		text = fmt.Sprintf("nothing to change: %s\n", res.Path)
	case in.dryRun:
		text = fmt.Sprintf("the server %q would be %s: %s\n", in.name, e.word, res.Path)
		if e.dropped != "" {
			text += "it would no longer be started with: " + e.dropped + "\n"
		}
	default:
		text = fmt.Sprintf("the server %q is %s: %s\n", in.name, e.word, res.Path)
		if e.dropped != "" {
			text += "it is no longer started with: " + e.dropped + "\n"
		}
		if res.Backup != "" {
			text += "backup: " + res.Backup + "\n"
		}
		text += e.after + "\n"
	}
	_, err = io.WriteString(in.outputs, text)
	return err
}

// parseInstallation reads the flags; what the server would refuse is refused.
func parseInstallation(p process, name, help string, args []string) (in installation, done bool, err error) {
	f := newFlags(name, name+" --host HOST [FLAGS]", help)
	in.outputs = p.stdout
	var host, scope string
	f.StringVar(&host, "host", "", "")
	f.StringVar(&scope, "scope", string(hosts.User), "")
	f.StringVar(&in.name, "name", "biocage", "")
	f.BoolVar(&in.dryRun, "dry-run", false, "")
	if name == "install" {
		f.BoolVar(&in.show, "print", false, "")
	}
	if done, err := f.parse(p, args); done || err != nil {
		return in, done, err
	}
	if err := f.noArguments(); err != nil {
		return in, false, err
	}
	if host == "" {
		return in, false, usageError{"say for which host with --host: " + strings.Join(hosts.Names(), ", ")}
	}
	if in.host, err = hosts.Find(host); err != nil {
		return in, false, usageError{err.Error()}
	}
	place, err := p.place()
	if err != nil {
		return in, false, err
	}
	if in.path, err = in.host.File(place, hosts.Scope(scope)); err != nil {
		return in, false, usageError{err.Error()}
	}
	if hosts.Scope(scope) == hosts.Project {
		in.within = place.Project
	}
	if _, err := f.load(p); err != nil {
		return in, false, err
	}
	in.server, err = f.server(p, in.name)
	return in, false, err
}

// place is where this process looks for hosts' files.
func (p process) place() (hosts.Place, error) {
	dir, err := os.Getwd()
	home := p.getenv("HOME")
	if runtime.GOOS == "windows" {
		home = p.getenv("USERPROFILE")
	}
	return hosts.Place{OS: runtime.GOOS, Home: home, Project: dir, Getenv: p.getenv}, err
}
