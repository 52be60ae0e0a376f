//go:build linux && (amd64 || arm64)

package gvisor

import (
	"bytes"
	"encoding/gob"
	"slices"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	bootfilter "gvisor.dev/gvisor/runsc/boot/filter"
	goferfilter "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

// gVisor's Go module carries no compiled seccomp programs, so that each start
// would compile one (some 90 ms of CPU time). Those that this engine needs are
// made by genseccomp once per version of gVisor and put where gVisor looks
// first. When a program is missing there gVisor compiles its own: slower, as
// safe.

//go:linkname bootPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var bootPrograms map[string]precompiledseccomp.Program //nolint:gochecknoglobals // gVisor's

//go:linkname goferPrograms gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var goferPrograms map[string]precompiledseccomp.Program //nolint:gochecknoglobals // gVisor's

// seccompPrograms is the form of the embedded file; genseccomp writes it.
type seccompPrograms struct {
	Boot, Gofer []precompiledseccomp.Program
}

func decodePrecompiled() (seccompPrograms, error) {
	var all seccompPrograms
	err := gob.NewDecoder(bytes.NewReader(precompiled)).Decode(&all)
	return all, err
}

// registerPrecompiled offers the programs to the part of gVisor that args name.
func registerPrecompiled(args []string) {
	boot, gofer := slices.Contains(args, "boot"), slices.Contains(args, "gofer")
	if len(precompiled) == 0 || !boot && !gofer {
		return
	}
	all, err := decodePrecompiled()
	if err != nil {
		return // gVisor compiles them; a test proves that the file is good
	}
	if boot {
		bootfilter.ListPrecompiled() // makes the map
		insert(bootPrograms, all.Boot)
	}
	if gofer {
		goferfilter.ListPrecompiled()
		insert(goferPrograms, all.Gofer)
	}
}

func insert(programs map[string]precompiledseccomp.Program, add []precompiledseccomp.Program) {
	if programs == nil {
		return
	}
	for _, p := range add {
		programs[p.Name] = p
	}
}
