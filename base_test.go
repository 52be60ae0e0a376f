package main

import (
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
