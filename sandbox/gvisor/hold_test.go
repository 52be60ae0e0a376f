//go:build linux && (amd64 || arm64)

package gvisor

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestHold(t *testing.T) {
	if os.Getenv("HOLD") == "" {
		t.Skip()
	}
	k := start(t, testEngine(t, nil), testSpec(t))
	b := k.box.(*box)
	fmt.Println(b.id, b.cont.Sandbox.Getpid(), b.cont.GoferPid.Load(), b.bundle.dir)
	os.WriteFile("/tmp/hold.pids", []byte(fmt.Sprintf("%d %d %s", b.cont.Sandbox.Getpid(), b.cont.GoferPid.Load(), b.bundle.dir)), 0o644)
	end := time.Now().Add(120 * time.Second)
	for time.Now().Before(end) {
		raw, err := os.ReadFile("/tmp/hold.cmd")
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		os.Remove("/tmp/hold.cmd")
		if string(raw) == "quit" {
			return
		}
		os.WriteFile("/tmp/hold.out", []byte(k.eval("%s", string(raw))+"\n"), 0o644)
	}
}
