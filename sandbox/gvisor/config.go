//go:build linux && (amd64 || arm64)

package gvisor

import (
	"fmt"

	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
)

// gvisorConfig is gVisor's own configuration, which it hands on to each of
// its parts as flags.
func gvisorConfig(stateDir string) (*config.Config, error) {
	flags := flag.NewFlagSet("gvisor", flag.ContinueOnError)
	config.RegisterFlags(flags)
	err := flags.Parse([]string{
		"--root=" + stateDir,
		"--platform=systrap",
		"--network=none",
		"--overlay2=none",
		"--file-access=exclusive",     // nobody changes an environment while it is used
		"--file-access-mounts=shared", // host files may change, and appear late
		"--directfs=true",
		"--host-uds=none",
		"--host-fifo=none",
		"--host-settings=ignore", // changing the host is doctor's business
		"--ignore-cgroups=true",  // on cgroup v1 gVisor would move this process; see cgroup.go
		// The shared namespace would be pinned by a mount that outlives a crash.
		"--gofer-network-namespace=new",
		"--sidecar-usage-policy=LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK", // all parts are in this program
	})
	if err != nil {
		return nil, fmt.Errorf("set gVisor's flags: %w", err)
	}
	conf, err := config.NewFromFlags(flags)
	if err != nil {
		return nil, fmt.Errorf("configure gVisor: %w", err)
	}
	return conf, nil
}
