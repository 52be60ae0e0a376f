package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/internal/requestid"
)

// newLogger logs to standard error: coloured for a terminal, plain or JSON
// otherwise.
func newLogger(stderr io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // the configuration has been checked
	}
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(stderr, opts)
	switch {
	case cfg.Format == "json":
		handler = slog.NewJSONHandler(stderr, opts)
	case isTerminal(stderr):
		handler = tint.NewTextHandler(stderr, &tint.Options{Level: level, TimeFormat: "15:04:05"})
	}
	return slog.New(requestid.Handler(handler))
}

// isTerminal tells whether a stream is a person's terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
