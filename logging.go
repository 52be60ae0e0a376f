package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/biocypher/biocage-mcp/internal/config"
)

// newLogger logs to standard error: coloured for a terminal, plain or JSON
// otherwise.
func newLogger(stderr io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // the configuration has been checked
	}
	opts := &slog.HandlerOptions{Level: level}
	switch {
	case cfg.Format == "json":
		return slog.New(slog.NewJSONHandler(stderr, opts))
	case isTerminal(stderr):
		return slog.New(tint.NewTextHandler(stderr, &tint.Options{Level: level, TimeFormat: "15:04:05"}))
	}
	return slog.New(slog.NewTextHandler(stderr, opts))
}

// isTerminal tells whether a stream is a person's terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
