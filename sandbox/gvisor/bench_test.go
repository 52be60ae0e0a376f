//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
	"github.com/biocypher/biocage-mcp/sandbox/sandboxtest"
)

// agentSpec starts the real agent.
func agentSpec(tb testing.TB) sandbox.Spec {
	tb.Helper()
	dir, err := filepath.Abs("../../pyagent")
	if err != nil {
		tb.Fatal(err)
	}
	spec := testSpec(tb)
	spec.Agent = dir
	spec.Command = []string{"/usr/bin/python3", "-I", sandbox.AgentDir + "/biocage_agent_main.py"}
	spec.Env = append(spec.Env, "PYTHONDONTWRITEBYTECODE=1")
	return spec
}

func frame(tb testing.TB, box sandbox.Sandbox, want string) sandboxtest.Frame {
	tb.Helper()
	f, err := sandboxtest.ReadFrame(box.Stream())
	if err != nil || f.Header["type"] != want {
		tb.Fatalf("got %v (%v), want %s", f.Header, err, want)
	}
	return f
}

func create(tb testing.TB, e *Engine, spec sandbox.Spec) sandbox.Sandbox {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	box, err := e.Create(ctx, spec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = box.Close(context.Background()) })
	return box
}

func request(tb testing.TB, box sandbox.Sandbox, kind string, id int, more map[string]any) sandboxtest.Frame {
	tb.Helper()
	header := map[string]any{"type": kind + "_request", "id": id}
	maps.Copy(header, more)
	if err := sandboxtest.WriteFrame(box.Stream(), header, nil); err != nil {
		tb.Fatal(err)
	}
	return frame(tb, box, kind+"_reply")
}

// startAgent brings the agent to where it can run a cell.
func startAgent(tb testing.TB, box sandbox.Sandbox) {
	tb.Helper()
	frame(tb, box, "kernel_info")
	reply := request(tb, box, "start", 1, map[string]any{"preload": []string{}, "memory_bytes": 256 << 20, "lease_ms": 0, "spool_bytes": 1 << 20, "packages": []string{}})
	if reply.Header["status"] != "ok" {
		tb.Fatalf("start: %v", reply.Header)
	}
}

func TestAgentRuns(t *testing.T) {
	box := create(t, testEngine(t, nil), agentSpec(t))
	startAgent(t, box)
	if reply := request(t, box, "ping", 2, nil); reply.Header["busy"] == nil {
		t.Errorf("ping: %v", reply.Header)
	}
}

// BenchmarkStart is from Create to the agent's first frame; the end is
// reported beside it.
func BenchmarkStart(b *testing.B) {
	e, spec := testEngine(b, nil), agentSpec(b)
	var closing time.Duration
	for b.Loop() {
		box := create(b, e, spec)
		frame(b, box, "kernel_info")
		b.StopTimer()
		begin := time.Now()
		if err := box.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		closing += time.Since(begin)
		b.StartTimer()
	}
	b.ReportMetric(float64(closing.Microseconds())/1000/float64(b.N), "ms-close")
}

// echoProgram is the least that a Python program can do with the stream.
const echoProgram = "import os\nwhile data := os.read(10, 65536): os.write(10, data)"

func echo(b *testing.B, box sandbox.Sandbox, id int) {
	b.Helper()
	if err := sandboxtest.WriteFrame(box.Stream(), map[string]any{"type": "ping_reply", "id": id}, nil); err != nil {
		b.Fatal(err)
	}
	frame(b, box, "ping_reply")
}

// BenchmarkRoundTrip takes what the agent does in turns with a bare echo over
// the same kind of stream, so that one run's figures can be compared whatever
// else the machine does. Medians and minima are reported.
func BenchmarkRoundTrip(b *testing.B) {
	e, spec := testEngine(b, nil), agentSpec(b)
	box := create(b, e, spec)
	startAgent(b, box)
	spec.Command = []string{"/usr/bin/python3", "-I", "-c", echoProgram}
	bare := create(b, e, spec)
	id := 1
	execute := func(code string) func() {
		return func() {
			header := map[string]any{"type": "execute_request", "id": id, "max_output": 32768, "execution_count": 1}
			if err := sandboxtest.WriteFrame(box.Stream(), header, []byte(code)); err != nil {
				b.Fatal(err)
			}
			for {
				f, err := sandboxtest.ReadFrame(box.Stream())
				if err != nil || f.Header["type"] == "execute_reply" && f.Header["status"] != "ok" {
					b.Fatal(f.Header, err)
				}
				if f.Header["type"] == "execute_reply" {
					return
				}
			}
		}
	}
	trips := []struct {
		name string
		do   func()
	}{
		{"echo", func() { echo(b, bare, id) }},
		{"ping", func() { request(b, box, "ping", id, nil) }},
		{"assign", execute("x = 1")},
		{"print", execute("print('hello')")},
	}
	took := make([][]time.Duration, len(trips))
	for b.Loop() {
		for i, trip := range trips {
			id++
			begin := time.Now()
			trip.do()
			took[i] = append(took[i], time.Since(begin))
		}
	}
	for i, trip := range trips {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/1000, "us-"+trip.name)
		b.ReportMetric(float64(took[i][0].Nanoseconds())/1000, "us-min-"+trip.name)
	}
}

// BenchmarkIdle reports what a sandbox with a started agent holds.
func BenchmarkIdle(b *testing.B) {
	e := testEngine(b, nil)
	if e.tree == nil {
		b.Skip("no control groups to measure with")
	}
	box := create(b, e, agentSpec(b))
	startAgent(b, box)
	for b.Loop() {
		time.Sleep(time.Second)
	}
	stats, err := box.Stats(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(stats.MemoryBytes)/(1<<20), "MiB")
	b.ReportMetric(float64(stats.CPU.Milliseconds()), "ms-cpu")
}
