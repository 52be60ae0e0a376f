package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/internal/hosts"
)

// passedOn are the flags that an installed server is started with, in this
// order, where they or their variables are set.
func passedOn() []string { return []string{"engine", "log-level", "log-format"} }

// server is this program, with the flags that it was given.
func (f *flagSet) server(p process, name string) (hosts.Server, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return hosts.Server{}, fmt.Errorf("this program's own path cannot be found: %w", err)
	}
	s := hosts.Server{Name: name, Command: exe, Args: []string{"serve"}}
	if file := f.configFile(p); file != "" {
		file, err := filepath.Abs(file) // the host starts elsewhere
		if err != nil {
			return s, err
		}
		s.Args = append(s.Args, "--config", file)
	}
	for _, flagName := range passedOn() {
		key := globalKeys()[flagName]
		value, given := f.values[key]
		if !given {
			value = p.getenv(config.EnvName(key))
		}
		if value != "" {
			s.Args = append(s.Args, "--"+flagName, value)
		}
	}
	if err := s.Check(); errors.Is(err, hosts.ErrUnknown) {
		return s, usageError{err.Error()}
	}
	return s, nil
}

// sayNotPassedOn tells which variables a server would heed if it were started
// here, but not where a host starts it. Their values may be secrets.
func (p process) sayNotPassedOn() error {
	covered := []string{config.FileVariable}
	for _, flagName := range passedOn() {
		covered = append(covered, config.EnvName(globalKeys()[flagName]))
	}
	heeded := slices.Concat(config.Variables(), []string{"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "XDG_DATA_HOME"})
	var left []string
	for _, name := range p.variables() {
		if !slices.Contains(covered, name) && (slices.Contains(heeded, name) || strings.HasPrefix(name, "OTEL_")) {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	_, err := io.WriteString(p.stderr, "these variables are not passed on to the server: "+strings.Join(slices.Compact(left), ", ")+
		"; write keys of the configuration into a file for --config, and others into the entry's env, which install keeps\n")
	return err
}
