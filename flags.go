package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/internal/spell"
	"github.com/biocypher/biocage-mcp/sandbox"
)

const globalHelp = `  --config FILE             configuration file (BIOCAGE_CONFIG)
  --engine auto|docker|gvisor
  --log-level debug|info|warn|error
  --log-format text|json
`

// globalKeys are the flags of every command, by the key that they set.
func globalKeys() map[string]string {
	return map[string]string{"config": "", "engine": "engine", "log-level": "log.level", "log-format": "log.format"}
}

// leadingGlobals splits off the global flags that stand before the command.
func leadingGlobals(args []string) (globals, rest []string, err error) {
	for len(args) > 0 {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		if _, ok := globalKeys()[name]; !ok || !strings.HasPrefix(args[0], "-") {
			break
		}
		n := 2
		if hasValue {
			n = 1
		}
		if len(args) < n {
			return nil, nil, usageError{"the flag --" + name + " needs a value"}
		}
		globals, args = append(globals, args[:n]...), args[n:]
	}
	return globals, args, nil
}

// A flagSet is a command's flags. Those that set a configuration key are kept
// as text and checked with the rest of the configuration.
type flagSet struct {
	*flag.FlagSet
	synopsis string
	help     string
	config   string
	values   map[string]string // by configuration key
	loaded   *config.Config    // nil before load
	file     configFile
	runs     bool           // sandboxes: what the machine must have for that is checked
	mounts   []config.Mount // beside the configuration's
}

func newFlags(name, synopsis, help string) *flagSet {
	f := &flagSet{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), synopsis: synopsis, help: help, values: map[string]string{}}
	f.SetOutput(io.Discard) // faults are told once, by run
	f.StringVar(&f.config, "config", "", "")
	for flagName, key := range globalKeys() {
		if key != "" {
			f.key(flagName, key)
		}
	}
	return f
}

// key adds a flag that sets a configuration key.
func (f *flagSet) key(name, key string) {
	f.Func(name, "", func(value string) error {
		f.values[key] = value
		return nil
	})
}

// parse reads the arguments. done means that help was asked for and given.
func (f *flagSet) parse(p process, args []string) (done bool, err error) {
	err = f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprintf(p.stdout, "Usage: biocage %s\n\n%s\nFlags of every command:\n%s", f.synopsis, f.help, globalHelp)
		return true, err
	case err != nil:
		return false, usageError{f.explain(err)}
	}
	return false, nil
}

// parseMixed reads flags before and after the arguments, which it gives.
func (f *flagSet) parseMixed(p process, args []string) (files []string, done bool, err error) {
	for {
		if done, err := f.parse(p, args); done || err != nil {
			return nil, done, err
		}
		if f.NArg() == 0 {
			return files, false, nil
		}
		files, args = append(files, f.Arg(0)), f.Args()[1:]
	}
}

// explain says what is wrong with a command line, with the nearest flag.
func (f *flagSet) explain(err error) string {
	text := err.Error()
	if word, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		f.VisitAll(func(fl *flag.Flag) { names = append(names, fl.Name) })
		text = fmt.Sprintf("%s has no flag --%s", f.Name(), word)
		if other, ok := otherWords()[word]; ok && f.Lookup(strings.Fields(other)[0]) != nil {
			text += "; did you mean --" + other + "?"
		} else if near := spell.Nearest(word, names); near != "" {
			text += "; did you mean --" + near + "?"
		}
	}
	return text + " (biocage " + f.Name() + " --help)"
}

// otherWords are flags as other servers call them, with what they are here.
func otherWords() map[string]string {
	return map[string]string{
		"port": "listen HOST:PORT", "host": "listen HOST:PORT", "bind": "listen HOST:PORT", "address": "listen HOST:PORT",
		"http": "transport http", "stdio": "transport stdio",
	}
}

// noArguments refuses what is left behind the flags.
func (f *flagSet) noArguments() error {
	if f.NArg() > 0 {
		return usageError{fmt.Sprintf("%s takes no argument %q (biocage %s --help)", f.Name(), f.Arg(0), f.Name())}
	}
	return nil
}

// configFile is where the configuration is read from. An empty variable is
// one that is not set: a host passes what a user has left empty.
func (f *flagSet) configFile(p process) string {
	if f.config != "" {
		return f.config
	}
	return p.getenv(config.FileVariable)
}

// load reads the configuration, once.
func (f *flagSet) load(p process) (config.Config, error) {
	if f.loaded != nil {
		return *f.loaded, nil
	}
	src := config.Source{Name: f.configFile(p), Env: p.getenv, Variables: p.variables(), Flags: f.values, Mounts: f.mounts}
	if f.runs {
		src.Machine = &config.Machine{Stat: os.Stat, CheckTarget: sandbox.CheckTarget}
	}
	if src.Name != "" {
		data, err := readBounded(src.Name, maxConfig)
		if err != nil {
			return config.Config{}, usageError{"the configuration cannot be read: " + err.Error()}
		}
		src.Data = data
	}
	cfg, err := config.Load(src)
	if err != nil {
		return config.Config{}, usageError{err.Error()}
	}
	for _, name := range config.Strangers(src.Variables) {
		newLogger(p.stderr, cfg.Log).Warn("unknown environment variable, ignored", "variable", name)
	}
	f.loaded = &cfg
	f.file = configFile{name: src.Name}
	if own, err := config.Load(config.Source{Name: src.Name, Data: src.Data}); src.Name != "" {
		// What cannot stand alone may hold anything.
		f.file.secret = err != nil || len(own.Server.Tokens) > 0
	}
	return cfg, nil
}

// A configFile is the configuration file in use, if there is one.
type configFile struct {
	name   string
	secret bool // it holds tokens
}

// maxConfig bounds the configuration file, which may be named by mistake.
const maxConfig = 1 << 20

// readBounded reads a file of at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes, so it is something else", name, limit)
	}
	return data, nil
}

// getenv looks a variable up; the last one of a name counts.
func (p process) getenv(name string) string {
	for _, variable := range slices.Backward(p.environ) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// variables are the names of all that are set to something.
func (p process) variables() []string {
	var names []string
	for _, variable := range p.environ {
		if name, value, _ := strings.Cut(variable, "="); value != "" {
			names = append(names, name)
		}
	}
	return names
}
