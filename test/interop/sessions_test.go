package interop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// ask calls a tool and gives its text and its result object.
func (s *server) ask(t *testing.T, tool string, args map[string]any) (string, run) {
	t.Helper()
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.Arguments = tool, args
	res, err := s.client.CallTool(t.Context(), request)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text, ok := res.Content[0].(mcp.TextContent)
	if !ok {
		t.Fatalf("%s: no text: %+v", tool, res)
	}
	raw, err := json.Marshal(res.Meta.AdditionalFields["biocage/result"])
	if err != nil {
		t.Fatal(err)
	}
	return text.Text, parse[run](t, raw)
}

// Named sessions are sandboxes of their own, until they are closed; handles of
// an ended server are told from wrong ones.
func TestNamedSessions(t *testing.T) {
	onEachEngine(t, func(t *testing.T, lab lab) {
		s := lab.start(t)
		own := s.python(t, "x = 'own'; open('f', 'w').write(x)")
		text, named := s.ask(t, "python_run", map[string]any{"session": "other", "code": "import os\n'x' in globals() or os.path.exists('f')"})
		if first, _, _ := strings.Cut(text, "\n"); first != `session: other — pass it as "session" to continue here` {
			t.Errorf("the answer that began a session: %s", text)
		}
		if named.Result == nil || *named.Result != "False" || named.Session == own.Session {
			t.Errorf("the named session is not its own: %+v", named)
		}
		if text, got := s.ask(t, "python_run", map[string]any{"session": named.Session, "code": "x = 'other'; x"}); !got.Success || got.Session != named.Session || strings.HasPrefix(text, "session:") {
			t.Errorf("by its handle: %s", text)
		}
		if text, _ := s.ask(t, "session_info", map[string]any{}); !strings.Contains(text, named.Session+" (named other,") {
			t.Errorf("session_info does not tell of it: %s", text)
		}
		if text, _ := s.ask(t, "file_read", map[string]any{"session": "othr", "path": "f"}); !strings.Contains(text, `No session has the name "othr"`) {
			t.Errorf("reading by a name that is not in use: %s", text)
		}
		if text, _ := s.ask(t, "session_reset", map[string]any{"session": "other", "close": true}); !strings.Contains(text, "closed") {
			t.Errorf("closing it: %s", text)
		}
		if text, got := s.ask(t, "python_run", map[string]any{"session": named.Session, "code": "1"}); got.Success || !strings.Contains(text, "session_reset closed it") {
			t.Errorf("after its end: %s", text)
		}
		if got := s.python(t, "x"); got.Result == nil || *got.Result != "'own'" {
			t.Errorf("the connection's own session: %+v", got)
		}

		later := lab.start(t)
		if text, got := later.ask(t, "python_run", map[string]any{"session": own.Session, "code": "1"}); got.Success || !strings.Contains(text, "ended when the server restarted") {
			t.Errorf("a handle of another server: %s", text)
		}
		wrong := own.Session[:len(own.Session)-1] + "_"
		if text, _ := later.ask(t, "python_run", map[string]any{"session": wrong, "code": "1"}); !strings.Contains(text, "does not exist, or has ended") {
			t.Errorf("a handle that was never made: %s", text)
		}
	})
}
