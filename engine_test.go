package main

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/biocypher/biocage-mcp/internal/config"
)

// A daemon that was not waited for has not failed to answer.
func TestNoEngineIsChosenWhenNobodyWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, engine := range []string{"auto", "docker"} {
		cfg := config.Default()
		cfg.Engine = engine
		h := host{cfg: cfg, log: newLogger(io.Discard, cfg.Log), p: process{environ: []string{"DOCKER_HOST=unix:///no/such/docker.sock"}}}
		if c, err := h.choose(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: chosen %+v, %v", engine, c, err)
		}
	}
}
