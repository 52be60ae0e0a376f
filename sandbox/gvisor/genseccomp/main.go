//go:build linux && (amd64 || arm64)

// Command genseccomp compiles the seccomp programs that package gvisor embeds,
// so that they need not be compiled at the start of every sandbox.
//
// Run it (go generate ./sandbox/gvisor) after every change of the gVisor
// version, on the architecture that the file is for. gVisor offers no way to
// ask for single programs: all of its several hundred variants are compiled,
// which takes some ten minutes, and those for this engine's configuration
// (systrap, no devices passed through, no host network, no cgo) are kept.
package main

import (
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	bootconfig "gvisor.dev/gvisor/runsc/boot/filter/config"
	goferconfig "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

// programs is the embedded file's form; package gvisor reads it.
type programs struct {
	Boot, Gofer []precompiledseccomp.Program
}

func main() {
	out := flag.String("o", "", "the file to write")
	flag.Parse()
	if err := generate(*out); err != nil {
		fmt.Fprintln(os.Stderr, "genseccomp:", err)
		os.Exit(1) //nolint:forbidigo // a main of its own
	}
}

func generate(path string) error {
	if path == "" {
		return errors.New("name the file to write with -o")
	}
	boot, err := bootconfig.PrecompiledPrograms()
	if err != nil {
		return fmt.Errorf("compile the sentry's programs: %w", err)
	}
	gofer, err := goferconfig.PrecompiledPrograms()
	if err != nil {
		return fmt.Errorf("compile the gofer's programs: %w", err)
	}
	kept := programs{Boot: keep(boot, wantBoot), Gofer: keep(gofer, wantGofer)}
	if len(kept.Boot) == 0 || len(kept.Gofer) == 0 {
		return fmt.Errorf("no program fits any more: %d of %d for the sentry, %d of %d for the gofer; adapt the rules in genseccomp",
			len(kept.Boot), len(boot), len(kept.Gofer), len(gofer))
	}
	return write(path, kept)
}

func write(path string, kept programs) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(file).Encode(kept); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}

func keep(all []precompiledseccomp.Program, want func(name string) bool) []precompiledseccomp.Program {
	var kept []precompiledseccomp.Program
	for _, p := range all {
		if want(p.Name) {
			kept = append(kept, p)
		}
	}
	return kept
}

func wantBoot(name string) bool {
	for _, no := range []string{"NVProxy=true", "TPUProxy=true", "RDMAProxy=true", "HostNetwork=true"} {
		if strings.Contains(name, no) {
			return false
		}
	}
	return strings.Contains(name, "systrap")
}

func wantGofer(name string) bool { return !strings.Contains(name, "CgoEnabled=true") }
