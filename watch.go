package main

import (
	"context"
	"os"
	"sync/atomic"

	"github.com/biocypher/biocage-mcp/internal/audit"
	"github.com/biocypher/biocage-mcp/internal/metrics"
	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

// A watch is everything that looks at what a server does.
type watch struct {
	tools   []tools.Observer
	audit   *audit.Log // nil: off
	metrics *metrics.Metrics
	cage    atomic.Pointer[cage] // whose sessions are counted, once there is one
}

// watch opens what the configuration asks for.
func (h host) watch(ctx context.Context) (*watch, error) {
	w := &watch{}
	w.metrics = metrics.New(buildVersion(), func() session.Counts {
		if c := w.cage.Load(); c != nil {
			return c.Counts()
		}
		return session.Counts{}
	})
	w.tools = []tools.Observer{w.metrics}
	if path := h.cfg.Log.Audit; path != "" {
		log, err := audit.Open(ctx, audit.Options{
			Path: path, Content: h.cfg.Log.AuditContent, Required: h.cfg.Log.AuditRequired,
			PID: os.Getpid(), Logger: h.log,
		})
		if err != nil {
			return nil, err
		}
		w.audit = log
		w.tools = append(w.tools, log)
	}
	return w, nil
}

// Close is for the end, when no call can begin any more.
func (w *watch) Close(ctx context.Context) error {
	if w.audit == nil {
		return nil
	}
	return w.audit.Close(ctx)
}
