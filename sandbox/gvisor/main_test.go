//go:build linux && (amd64 || arm64)

package gvisor

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Dispatch()
	os.Exit(m.Run())
}
