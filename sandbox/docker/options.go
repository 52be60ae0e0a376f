package docker

import (
	"log/slog"
	"time"
)

// Channel says how the agent's frames travel: Auto is the zero value.
type Channel int

// The channels.
const (
	// ChannelAuto is a unix socket when the daemon runs on this machine's
	// kernel, else the container's attached standard streams.
	ChannelAuto Channel = iota
	// ChannelStdio is always the attached standard streams.
	ChannelStdio
)

// Options configure an engine. The zero value talks to the local daemon.
type Options struct {
	// Host is the daemon's address, such as unix:///var/run/docker.sock or
	// tcp://host:2376; "" is the platform's default.
	Host string
	// TLSDir holds ca.pem, cert.pem and key.pem for a tcp host; "" is no TLS.
	TLSDir string
	// Runtime is the daemon's OCI runtime; "" is its default, "runsc" is
	// gVisor, which changes what the container needs.
	Runtime string
	// Channel forces a data path.
	Channel Channel
	// SocketDir is where a private directory for sockets and copies of the
	// agent is made; "" is /dev/shm, or the directory for temporary files.
	SocketDir string
	// Version is written into the containers' labels.
	Version string
	// ReapGrace protects containers younger than this from Reap; 0 is a minute.
	ReapGrace time.Duration
	// Log receives warnings; nil discards them.
	Log *slog.Logger
}

// runsc is the name under which daemons register gVisor.
const runsc = "runsc"

// Bounds of single calls to the daemon. A loaded daemon takes seconds to
// create a container; one that takes longer is taken for dead.
const (
	quickCall    = 10 * time.Second
	slowCall     = 60 * time.Second
	cleanupCall  = 20 * time.Second
	agentConnect = 30 * time.Second
	leaseGrace   = 3 * time.Second // between the stream's end and the kill
)

func (o Options) withDefaults() Options {
	if o.ReapGrace == 0 {
		o.ReapGrace = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
