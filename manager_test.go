package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/session"
)

// What is not gone in time is no failure of a server that somebody cleans up
// after, and one of a server that nobody does.
func TestAServerEndsWellThoughItsSandboxesAreSlow(t *testing.T) {
	for name, cleaner := range map[string]*janitor{"with a janitor": {}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			asked, release := make(chan struct{}), make(chan struct{})
			h := host{cfg: config.Default(), log: slog.New(slog.DiscardHandler)}
			base := newBaseMaker(h)
			base.janitor = cleaner
			base.pick = func(context.Context) (chosen, error) { // as stuck as an engine can be
				close(asked)
				<-release
				return chosen{}, errors.New("no engine")
			}
			c, err := newCage(t.Context(), h, base, func(o *session.Options) { o.Warm = 1 })
			if err != nil {
				t.Fatal(err)
			}
			c.Prepare()
			<-asked
			begin := time.Now()
			err = c.endServer(t.Context(), h.log, 50*time.Millisecond)
			if failed := errors.Is(err, context.DeadlineExceeded); failed != (cleaner == nil) {
				t.Errorf("the server ended with %v", err)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("the end took %v", took)
			}
			close(release)
		})
	}
}
