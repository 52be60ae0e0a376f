//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"maps"
	"os"
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

// BenchmarkLines is a cell that prints 100,000 short lines.
func BenchmarkLines(b *testing.B) {
	box := create(b, testEngine(b, nil), agentSpec(b))
	startAgent(b, box)
	id := 1
	for b.Loop() {
		id++
		header := map[string]any{"type": "execute_request", "id": id}
		if err := sandboxtest.WriteFrame(box.Stream(), header, []byte("for i in range(100000): print(i)")); err != nil {
			b.Fatal(err)
		}
		for {
			f, err := sandboxtest.ReadFrame(box.Stream())
			if err != nil {
				b.Fatal(err)
			}
			if f.Header["type"] == "execute_reply" {
				break
			}
		}
	}
}

// BenchmarkReset is a reset, and the next cell after an interpreter ended, with
// the usual libraries loaded.
func BenchmarkReset(b *testing.B) {
	spec := agentSpec(b)
	spec.Command[0] = "/opt/venv/bin/python3"
	if _, err := os.Lstat(filepath.Join(spec.Root.Dir, spec.Command[0])); err != nil {
		b.Skip("no environment with libraries: ", err)
	}
	box := create(b, testEngine(b, nil), spec)
	frame(b, box, "kernel_info")
	preload := []string{"numpy", "pandas", "matplotlib.pyplot"}
	reply := request(b, box, "start", 1, map[string]any{"preload": preload, "memory_bytes": 384 << 20, "lease_ms": 0, "spool_bytes": 1 << 20})
	if failed, ok := reply.Header["failed"].([]any); !ok || len(failed) > 0 {
		b.Skip("libraries that are not in the root file system: ", reply.Header)
	}
	id := 1
	execute := func(code string) {
		id++
		header := map[string]any{"type": "execute_request", "id": id}
		if err := sandboxtest.WriteFrame(box.Stream(), header, []byte(code)); err != nil {
			b.Fatal(err)
		}
		frame(b, box, "execute_reply")
	}
	var resets, recoveries []time.Duration
	for b.Loop() {
		time.Sleep(500 * time.Millisecond) // a session rests now and then
		id++
		begin := time.Now()
		request(b, box, "reset", id, nil)
		resets = append(resets, time.Since(begin))
		time.Sleep(500 * time.Millisecond)
		execute("import os; os._exit(1)")
		begin = time.Now()
		execute("x = 1")
		recoveries = append(recoveries, time.Since(begin))
	}
	for name, took := range map[string][]time.Duration{"reset": resets, "recovery": recoveries} {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-"+name)
		b.ReportMetric(float64(took[0].Microseconds())/1000, "ms-min-"+name)
	}
	if stats, err := box.Stats(context.Background()); err == nil {
		b.ReportMetric(float64(stats.MemoryBytes)/(1<<20), "MiB")
	}
}
