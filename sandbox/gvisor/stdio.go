//go:build linux && (amd64 || arm64)

package gvisor

import (
	"os"
	"sync"
)

// gVisor gives a sandbox the standard streams of the process that creates it,
// as it finds them in os.Stdin, os.Stdout and os.Stderr. Ours are the MCP
// stream and the log, which no sandbox may ever hold. So these variables name
// the null device while any sandbox is being created. Nothing but gVisor may
// use them then; our own code is handed its streams by main.
type stdioGuard struct {
	mu    sync.Mutex
	users int         // guarded by mu
	null  *os.File    // guarded by mu; open while users > 0
	saved [3]*os.File // guarded by mu
}

//nolint:gochecknoglobals // guards process-wide variables, so there can be only one
var stdio stdioGuard

// hide names the null device and returns what gives the streams back.
func (g *stdioGuard) hide() (restore func() error, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users == 0 {
		if g.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
			return nil, err
		}
		g.saved = [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
		os.Stdin, os.Stdout, os.Stderr = g.null, g.null, g.null
	}
	g.users++
	return g.release, nil
}

func (g *stdioGuard) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if g.users > 0 {
		return nil
	}
	os.Stdin, os.Stdout, os.Stderr = g.saved[0], g.saved[1], g.saved[2]
	return g.null.Close()
}
