package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/session"
)

func TestSplitMounts(t *testing.T) {
	data := session.ExposeRequest{HostPath: "/h/a", SandboxPath: "/data/a", Mode: sandbox.ReadWrite}
	work := session.ExposeRequest{HostPath: "/h/b", SandboxPath: "/work/b"}
	other := session.ExposeRequest{HostPath: "/h/c", SandboxPath: "/srv/c"}
	all := []session.ExposeRequest{data, work, other}
	fixed := func(reqs ...session.ExposeRequest) []sandbox.Mount {
		var out []sandbox.Mount
		for _, r := range reqs {
			out = append(out, sandbox.Mount{Host: r.HostPath, Sandbox: r.SandboxPath, Mode: r.Mode})
		}
		return out
	}
	tests := []struct {
		name      string
		canLive   bool
		wantFixed []sandbox.Mount
		wantLive  []session.ExposeRequest
	}{
		{name: "an engine that attaches", canLive: true, wantFixed: fixed(other), wantLive: []session.ExposeRequest{data, work}},
		{name: "an engine that cannot", wantFixed: fixed(data, work, other)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			gotFixed, gotLive := splitMounts(all, tt.canLive)
			if diff := cmp.Diff(tt.wantFixed, gotFixed); diff != "" {
				t.Errorf("fixed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantLive, gotLive); diff != "" {
				t.Errorf("live (-want +got):\n%s", diff)
			}
		})
	}
}

// An islandEngine gives no network.
type islandEngine struct{ sandbox.Engine }

func (islandEngine) Name() string                       { return "gvisor" }
func (islandEngine) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{} }

func TestNetworkThatTheEngineLacks(t *testing.T) {
	b := &baseMaker{}
	b.host.cfg.Sandbox.Network = "full"
	_, err := b.prepare(t.Context(), chosen{engine: islandEngine{}, reason: "no Docker daemon answers"})
	var told *session.SandboxError
	if !errors.As(err, &told) || !errors.Is(err, sandbox.ErrUnsupported) {
		t.Fatalf("prepare: %v", err)
	}
	for _, part := range []string{"no Docker daemon answers", "set engine to docker", "sandbox.network to none"} {
		if !strings.Contains(told.Message, part) {
			t.Errorf("%q does not say %q", told.Message, part)
		}
	}
}

func TestInstructionsTellTheNetwork(t *testing.T) {
	if text := instructions("docker", "default", true); !strings.Contains(text, "The network is on") || !strings.Contains(text, "pip install") {
		t.Errorf("with the network: %s", text)
	}
	if text := instructions("docker", "default", false); strings.Contains(text, "network") {
		t.Errorf("without: %s", text)
	}
}
