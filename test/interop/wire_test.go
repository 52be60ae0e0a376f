package interop

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// What the SDKs cannot show: each byte that the server writes.
func TestWire(t *testing.T) {
	onEachEngine(t, func(t *testing.T, lab lab) {
		s := lab.start(t)
		s.python(t, "import time")
		s.progressing(t)
		time.Sleep(time.Second) // whatever comes now comes too late
		for _, code := range []string{
			`print("x" * 5_000_000)`,
			`import os; os.write(1, bytes(range(256)) * 20_000)`,
			`print("\x1b\u2028\x00" * 1_000_000)`,
			`print('{"jsonrpc": "2.0", "id": 1, "result": {}}' + "\n" * 3)`,
			`"y" * 5_000_000`,
			`raise ValueError("z" * 5_000_000)`,
			`open("big.txt", "w").write("\x01" * 5_000_000)`,
		} {
			s.python(t, code)
		}
		if _, err := s.call(t.Context(), "file_read", map[string]any{"path": "big.txt", "limit": 262_144}); err != nil {
			t.Fatal(err)
		}
		judgeWire(t, s.wire.messages())
	})
}

// progressing runs a cell of some seconds with progress asked for.
func (s *server) progressing(t *testing.T) {
	t.Helper()
	var request mcp.CallToolRequest
	request.Params.Name = "python_run"
	request.Params.Arguments = map[string]any{"code": "for i in range(15):\n    print(i)\n    time.sleep(0.2)"}
	request.Params.Meta = &mcp.Meta{ProgressToken: "watched"}
	if _, err := s.client.CallTool(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Token    string  `json:"progressToken"`
		Progress float64 `json:"progress"`
	} `json:"params"`
}

// judgeWire checks that all is JSON-RPC, each answer is small enough and
// answered once, and that progress comes before its result.
func judgeWire(t *testing.T, lines [][]byte) {
	t.Helper()
	answered, notices := map[string]bool{}, 0
	var last float64
	for _, line := range lines {
		var m message
		if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" {
			t.Fatalf("no JSON-RPC on standard output: %.200q", line)
		}
		if len(line) >= maxAnswer {
			t.Errorf("a message has %d bytes, not under %d", len(line), maxAnswer)
		}
		switch {
		case strings.HasSuffix(m.Method, "/progress"):
			notices++
			// initialize, `import time`, then the watched call: three answers
			// mean that it has been answered.
			if len(answered) >= 3 {
				t.Error("progress came after the result")
			}
			if m.Params.Token != "watched" || m.Params.Progress <= last {
				t.Errorf("the progress of %q went from %v to %v", m.Params.Token, last, m.Params.Progress)
			}
			last = m.Params.Progress
		case m.Method == "":
			if answered[string(m.ID)] {
				t.Errorf("request %s is answered twice", m.ID)
			}
			answered[string(m.ID)] = true
		}
	}
	if notices < 3 {
		t.Errorf("%d progress notifications came in 3 s", notices)
	}
}
