package config

import (
	"slices"
	"strings"

	"github.com/biocypher/biocage-mcp/internal/spell"
)

// FileVariable names the configuration file where no flag does.
const FileVariable = EnvPrefix + "CONFIG"

// Strangers are those of the variables that begin like the configuration's,
// but mean nothing and resemble nothing: not faults, because an environment may
// hold such for reasons of its own (Kubernetes adds some for a service of this
// name), but worth a word. Those that resemble a known name are faults of Load.
func Strangers(variables []string) []string {
	return slices.DeleteFunc(unknownVariables(variables), func(name string) bool { return nearestVariable(name) != "" })
}

// unknownVariables are those with our prefix that the configuration does not
// know, sorted. What tests of the program are told is no part of it.
func unknownVariables(variables []string) []string {
	known := Variables()
	var unknown []string
	for _, name := range variables {
		word, ours := strings.CutPrefix(name, EnvPrefix)
		ofTests := strings.HasPrefix(word, "TEST_") || strings.HasPrefix(word, "DOCKERD")
		if ours && !ofTests && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

func nearestVariable(name string) string {
	var words []string
	for _, known := range Variables() {
		words = append(words, strings.ToLower(strings.TrimPrefix(known, EnvPrefix)))
	}
	near := spell.Nearest(strings.TrimPrefix(name, EnvPrefix), words)
	if near == "" {
		return ""
	}
	return EnvPrefix + strings.ToUpper(near)
}

// Variables are the names of all variables of the configuration.
func Variables() []string {
	cfg := Default()
	names := []string{FileVariable}
	for _, f := range fieldsOf(&cfg) {
		names = append(names, EnvName(f.key))
	}
	return names
}
