package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/config"
)

func TestIsJanitor(t *testing.T) {
	for line, want := range map[string]bool{
		"biocage-janitor docker": true, "biocage-janitor": false, "biocage": false,
		"biocage docker": false, "biocage biocage-janitor": false, "/bin/biocage-janitor docker": false,
	} {
		if got := isJanitor(strings.Fields(line)); got != want {
			t.Errorf("isJanitor(%q) = %v", line, got)
		}
	}
}

// One that is dismissed does nothing, and at once.
func TestJanitorDismissed(t *testing.T) {
	begin := time.Now()
	err := runJanitor(t.Context(), process{stdin: strings.NewReader(dismissal)}, "no engine at all")
	if err != nil || time.Since(begin) > sweeps()[1] {
		t.Errorf("error %v after %v", err, time.Since(begin))
	}
}

// One whose server was killed sweeps, and fails when there is nothing to sweep with.
func TestJanitorWithoutEngine(t *testing.T) {
	h := host{p: process{environ: []string{"DOCKER_HOST=unix:///nowhere/docker.sock"}}, log: slog.New(slog.DiscardHandler)}
	h.cfg = config.Default()
	h.cfg.Engine = "docker"
	if err := h.sweep(t.Context()); err == nil {
		t.Error("a sweep without an engine succeeded")
	}
}
