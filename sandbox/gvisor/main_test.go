//go:build linux && (amd64 || arm64)

package gvisor

import (
	"os"
	"testing"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/sandboxtest"
)

// suiteRun is the run directory of the conformance suite and of the process
// that it kills.
const suiteRun = "/tmp/bcg-suite"

func TestMain(m *testing.M) {
	Dispatch()
	sandboxtest.HostProcess(newSuiteEngine)
	os.Exit(m.Run())
}

func newSuiteEngine() (sandbox.Engine, error) {
	return New(Options{RunDir: suiteRun})
}
