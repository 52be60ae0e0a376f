package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

func runVersion(_ context.Context, p process, args []string) error {
	f := newFlags("version", "version", "Print the version, the commit and the engines that are compiled in.\n")
	if done, err := f.parse(p, args); done || err != nil {
		return err
	}
	if err := f.noArguments(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "biocage %s (commit %s, %s, %s/%s)\nengines: %s\n",
		buildVersion(), buildSetting("vcs.revision"), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(compiledEngines(), ", "))
	return err
}

// compiledEngines names the engines of this binary.
func compiledEngines() []string {
	engines := []string{"docker"}
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		engines = append(engines, "gvisor")
	}
	return engines
}

// buildVersion is the version that the go command stamped, "dev" without one.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// buildSetting is one of the go command's stamps, "unknown" without it.
func buildSetting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return "unknown"
}
