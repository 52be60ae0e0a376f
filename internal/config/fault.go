package config

import "strings"

// A Fault is one thing that is wrong with the configuration.
type Fault struct {
	Where   string // file:line, the variable's name, the flag, or "" for a default
	Key     string // the dotted key, "" when the text as a whole is at fault
	Message string // what is wrong and what would be right
}

// String is the fault in one line. Whoever typed a flag has not typed its key.
func (f Fault) String() string {
	key := f.Key
	if strings.HasPrefix(f.Where, "--") || f.Where == folders {
		key = ""
	}
	var parts []string
	for _, part := range []string{f.Where, key, f.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// FaultErrors is every fault of a configuration; it is the error of [Load].
type FaultErrors []Fault

// Error implements error: one line for each fault.
func (f FaultErrors) Error() string {
	lines := make([]string, 0, len(f)+1)
	lines = append(lines, "the configuration has faults:")
	for _, fault := range f {
		lines = append(lines, "  "+fault.String())
	}
	return strings.Join(lines, "\n")
}
