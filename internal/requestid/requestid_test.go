package requestid_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/biocypher/biocage-mcp/internal/requestid"
)

func TestEnsureKeepsAnID(t *testing.T) {
	if id := requestid.From(t.Context()); id != "" {
		t.Errorf("a context without an id has %q", id)
	}
	ctx := requestid.Ensure(t.Context())
	id := requestid.From(ctx)
	if len(id) != 16 {
		t.Errorf("the id is %q, want 16 characters", id)
	}
	if again := requestid.From(requestid.Ensure(ctx)); again != id {
		t.Errorf("Ensure replaced %q by %q", id, again)
	}
	if other := requestid.From(requestid.Ensure(t.Context())); other == id {
		t.Errorf("two requests have the id %q", id)
	}
}

func TestHandlerAddsTheIDOnceToEachLine(t *testing.T) {
	ctx := requestid.Ensure(t.Context())
	want := " " + requestid.Key + "=" + requestid.From(ctx)
	var out bytes.Buffer
	log := slog.New(requestid.Handler(slog.NewTextHandler(&out, nil)))
	for name, tc := range map[string]struct {
		log  *slog.Logger
		ctx  context.Context
		want int
	}{
		"with an id":    {log, ctx, 1},
		"without an id": {log, t.Context(), 0},
		"derived":       {log.With("a", 1), ctx, 1},
	} {
		out.Reset()
		tc.log.InfoContext(tc.ctx, "message", "b", 2)
		if got := strings.Count(out.String(), want); got != tc.want {
			t.Errorf("%s: %q has the id %d times, want %d", name, out.String(), got, tc.want)
		}
	}
	out.Reset()
	log.WithGroup("g").InfoContext(ctx, "message")
	if !strings.Contains(out.String(), "g."+requestid.Key) {
		t.Errorf("in a group: %q has no id", out.String())
	}
}
