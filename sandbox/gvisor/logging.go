//go:build linux && (amd64 || arm64)

package gvisor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	gvisorlog "gvisor.dev/gvisor/pkg/log"
)

// logBridge gives gVisor's log lines to slog at debug level. gVisor's logger
// is process-wide and would write to standard error.
type logBridge struct{ logger *slog.Logger }

// Emit implements gVisor's log.Emitter.
func (b logBridge) Emit(_ int, level gvisorlog.Level, _ time.Time, format string, v ...any) {
	b.logger.LogAttrs(context.Background(), slog.LevelDebug, "gvisor", //nolint:forbidigo // gVisor passes none
		slog.String("gvisor_level", strings.ToLower(level.String())), slog.String("text", fmt.Sprintf(format, v...)))
}

// redirectLog must run before gVisor says its first word.
func redirectLog(ctx context.Context, logger *slog.Logger) {
	level := gvisorlog.Warning
	if logger.Enabled(ctx, slog.LevelDebug) {
		level = gvisorlog.Info
	}
	gvisorlog.SetLevel(level)
	gvisorlog.SetTarget(logBridge{logger})
}
