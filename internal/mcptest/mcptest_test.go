package mcptest

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script is a server that answers its first requests from a list, and then
// ends while one waits.
const script = `
read hello; echo '{"jsonrpc":"2.0","id":1,"result":{}}'
read initialized
read call; echo 'noise'
echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1,"message":"half"}}'
echo '{"jsonrpc":"2.0","id":99,"result":{}}'
echo '{"jsonrpc":"2.0","id":2,"result":{"isError":true,"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}],"_meta":{"biocage/result":{"exit_code":3,"stdout":"out"}}}}'
read call; echo '{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"bad"}}'
read call; echo 'last words' >&2; exit 7
`

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Binary: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConversation(t *testing.T) {
	s := start(t)
	a, err := s.Tool(t.Context(), "python_run", map[string]any{"code": "1"})
	if err != nil {
		t.Fatal(err)
	}
	got := []any{a.Refused(), a.Text(), a.Count("image"), a.Object.ExitCode, a.Object.Stdout, len(a.Updates), a.Updates[0].Message}
	if diff := cmp.Diff([]any{true, "a\nb", 1, 3, "out", 1, "half"}, got); diff != "" {
		t.Error(diff)
	}
	if lines := s.Foreign(); len(lines) != 2 || lines[0] != "noise\n" {
		t.Errorf("what is no message: %q", lines)
	}

	a, err = s.Tool(t.Context(), "python_run", nil)
	if err != nil || a.RPC == nil || a.RPC.Code != -32602 || !a.Refused() {
		t.Errorf("an error of the protocol: %+v, %v", a, err)
	}

	if _, err := s.Tool(t.Context(), "python_run", nil); !errors.Is(err, ErrEnded) {
		t.Errorf("a call that the end leaves unanswered: %v", err)
	}
	select {
	case <-s.Ended():
	case <-time.After(time.Minute):
		t.Fatal("the end was not noticed")
	}
	if err := s.Close(); err == nil || s.Alive() || s.Stderr() != "last words\n" {
		t.Errorf("an end with code 7: %v, alive %t, log %q", err, s.Alive(), s.Stderr())
	}
	if _, err := s.Begin("ping", nil); !errors.Is(err, ErrEnded) {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestKill(t *testing.T) {
	s := start(t)
	if err := s.Kill(); err != nil || s.Alive() {
		t.Fatal(err, s.Alive())
	}
	if err := s.Wait(t.Context()); err == nil {
		t.Error("a killed server ended well")
	}
}
