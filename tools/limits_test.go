package tools

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/biocypher/biocage-mcp/session"
)

func TestParseLimits(t *testing.T) {
	all := &session.Limits{MemoryBytes: 512 << 20, CPUs: 0.5, PIDs: 32, DiskBytes: 1 << 20, Timeout: 2500 * time.Millisecond, MaxOutput: 2 << 10}
	tests := []struct {
		raw  string
		want *session.Limits
		err  string
	}{
		{raw: ``},
		{raw: `null`},
		{raw: `{}`, want: &session.Limits{}},
		{raw: `{"memory":null}`, want: &session.Limits{}},
		{raw: `{"memory":"512m","cpus":0.5,"pids":32,"disk":1048576,"timeout_seconds":2.5,"max_output":"2KiB"}`, want: all},
		{raw: `"{\"memory\":536870912,\"cpus\":\"0.5\",\"pids\":\"32\",\"disk\":\"1m\",\"timeout_seconds\":\"2.5\",\"max_output\":2048}"`, want: all},
		{raw: `[]`, err: `limits must be an object, such as {"memory": "512m", "cpus": 1}.`},
		{raw: `"512m"`, err: `limits must be an object, such as {"memory": "512m", "cpus": 1}.`},
		{raw: `{"ram":"1g"}`, err: `limits has no argument "ram". It takes: memory, cpus, pids, disk, timeout_seconds, max_output.`},
		{raw: `{"memroy":"1g"}`, err: `limits has no argument "memroy"; did you mean memory? It takes: memory, cpus, pids, disk, timeout_seconds, max_output.`},
		{raw: `{"memory":"much"}`, err: `limits.memory: "much" is not a size; write 512m, 2g or 64KiB.`},
		{raw: `{"memory":0}`, err: `limits.memory: "0" is not a size above 0.`},
		{raw: `{"memory":-5}`, err: `limits.memory: the size "-5" is out of range.`},
		{raw: `{"cpus":"NaN"}`, err: `limits.cpus: "NaN" is not a number above 0.`},
		{raw: `{"cpus":-1}`, err: `limits.cpus: "-1" is not a number above 0.`},
		{raw: `{"pids":1.5}`, err: `limits.pids: "1.5" is not a whole number above 0.`},
		{raw: `{"pids":{}}`, err: `limits.pids: "{}" is not a whole number above 0.`},
		{raw: `{"timeout_seconds":1e400}`, err: `limits.timeout_seconds: "1e400" is not a number above 0.`},
	}
	for _, tt := range tests {
		got, err := parseLimits(json.RawMessage(tt.raw))
		message := ""
		if err != nil {
			message = err.Error()
		}
		if message != tt.err {
			t.Errorf("%s: error %q, want %q", tt.raw, message, tt.err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.raw, diff)
		}
	}
}

func TestSessionResetPassesLimitsOn(t *testing.T) {
	f := &fakeSessions{}
	h := newHarness(t, f, Options{})
	o := h.call("session_reset", `{"limits":{"memory":"256m"}}`)
	if diff := cmp.Diff(session.ResetRequest{Limits: &session.Limits{MemoryBytes: 256 << 20}}, f.reset); diff != "" || o.Result.IsError {
		t.Errorf("request (-want +got):\n%s%s", diff, o.text())
	}
}
