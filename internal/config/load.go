package config

import (
	"strings"
)

// EnvPrefix starts the name of every environment variable of the
// configuration; the rest is the key in capitals, its parts joined by "_".
const EnvPrefix = "BIOCAGE_"

// A Source is where a configuration comes from. Later sources win: File, then
// Env, then Flags.
type Source struct {
	// Name and Data are the file; an empty Name means no file.
	Name string
	Data []byte
	// Env looks up an environment variable; "" counts as not set.
	Env func(name string) string
	// Variables are the names of the environment variables that are set; one
	// that looks like a misspelt name of the configuration's is a fault.
	Variables []string
	// Flags are values from the command line by dotted key.
	Flags map[string]string
	// Mounts are those that flags add to the configuration's.
	Mounts []Mount
	// Machine, where set, is asked for what the configuration names.
	Machine *Machine
}

// Load lays the sources over the defaults and checks the outcome. Its error
// is a [FaultErrors] with every fault that was found.
func Load(src Source) (Config, error) {
	cfg := Default()
	l := &loader{cfg: &cfg, file: src.Name, origin: map[string]string{}}
	if src.Name != "" {
		l.readFile(src.Data)
	}
	for _, f := range fieldsOf(&cfg) {
		if src.Env != nil {
			name := EnvName(f.key)
			if value := src.Env(name); value != "" {
				l.setText(f, name, value)
			}
		}
		if value, ok := src.Flags[f.key]; ok {
			l.setText(f, flagName(f.key), value)
		}
	}
	for _, name := range unknownVariables(src.Variables) {
		if near := nearestVariable(name); near != "" {
			l.fault(name, "", "unknown variable; did you mean "+near+"?")
		}
	}
	l.mountsOfFlags(src.Mounts)
	l.validate()
	if src.Machine != nil {
		l.checkMachine(*src.Machine)
	}
	if len(l.faults) > 0 {
		return Config{}, l.faults
	}
	return cfg, nil
}

// EnvName is the environment variable of a dotted key.
func EnvName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// folders is how a fault names the arguments of the server.
const folders = "FOLDER"

// flagName is how a fault names the flag behind a key.
func flagName(key string) string {
	switch key {
	case "expose.roots":
		return folders
	case "log.level", "log.format":
		return "--" + strings.ReplaceAll(key, ".", "-")
	}
	return "--" + key[strings.LastIndexByte(key, '.')+1:]
}

// A loader collects values and faults.
type loader struct {
	cfg    *Config
	file   string
	origin map[string]string // where the value of a key came from
	faults FaultErrors
}

func (l *loader) fault(where, key, message string) {
	l.faults = append(l.faults, Fault{Where: where, Key: key, Message: message})
}

// setText sets a field from an environment variable or a flag.
func (l *loader) setText(f field, where, text string) {
	l.origin[f.key] = where
	if err := f.setText(text); err != nil {
		l.fault(where, f.key, err.Error())
	}
}
