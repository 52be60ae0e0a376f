package web

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// H15: whatever comes over standard input, only JSON-RPC goes out, the process
// ends soon after its input, and what it was told before is answered.
func TestWebStdioNoise(t *testing.T) {
	program := binary(t)
	config := write(t, map[string]any{"engine": "gvisor", "session": map[string]any{"warm": 0}})
	for _, tt := range []struct {
		name, input string
		answers     int // at least
	}{
		{"nothing", "", 0},
		{"noise", "hello\n\x00\x01\n{}\n[]\n\n\nnull\n\xff\xfe\n" + hello + "\n", 1},
		{"an end in the middle", hello + "\n" + listTools[:20], 1},
		{"a line of 64 MB", hello + "\n" + strings.Repeat("x", 64<<20) + "\n" + listTools + "\n", 2},
		{"a line of 64 MB that does not end", hello + "\n" + strings.Repeat("x", 64<<20), 1},
		{"a batch", hello + "\n[" + listTools + "]\n" + listTools + "\n", 2},
		{"a deep message", hello + "\n" + strings.Repeat("[", 1_000_000) + "\n" + listTools + "\n", 2},
		{"ends of lines of another system", hello + "\r\n" + listTools + "\r\n", 2},
		{"no initialize", listTools + "\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), program, "serve", "--config", config)
			cmd.Env = append(os.Environ(), "TMPDIR="+shortDir(t))
			var stdout, stderr lockedBuffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tt.input), &stdout, &stderr
			kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
			err := cmd.Run()
			if !kill.Stop() || err != nil {
				t.Errorf("ended with %v within 20 s\n%s", err, last(stderr.String(), 2000))
			}
			answers := 0
			for line := range strings.Lines(stdout.String()) {
				var m struct {
					JSONRPC string `json:"jsonrpc"`
				}
				if json.Unmarshal([]byte(line), &m) != nil || m.JSONRPC != "2.0" {
					t.Errorf("no JSON-RPC on standard output: %.200q", line)
				}
				answers++
			}
			if answers < tt.answers {
				t.Errorf("%d answers, want %d at least:\n%.2000s", answers, tt.answers, stdout.String())
			}
		})
	}
}

// H15: a reader that has gone ends the server, in time.
func TestWebStdioReaderGone(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary(t), "serve", "--config", write(t, map[string]any{"engine": "gvisor", "session": map[string]any{"warm": 0}}))
	cmd.Env = append(os.Environ(), "TMPDIR="+shortDir(t))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, written, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr lockedBuffer
	cmd.Stdout, cmd.Stderr = written, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = written.Close(), read.Close() // a pipe's Close does not fail
	_, _ = io.WriteString(stdin, hello+"\n")
	kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // whatever it says of its end
	if !kill.Stop() || strings.Contains(stderr.String(), "goroutine ") {
		t.Errorf("the server did not end in time, or panicked:\n%s", last(stderr.String(), 2000))
	}
}
