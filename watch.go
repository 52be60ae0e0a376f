package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/biocypher/biocage-mcp/internal/audit"
	"github.com/biocypher/biocage-mcp/internal/metrics"
	"github.com/biocypher/biocage-mcp/internal/tracing"
	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

// A watch is everything that looks at what a server does.
type watch struct {
	tools   []tools.Observer
	audit   *audit.Log // nil: off
	metrics *metrics.Metrics
	tracing *tracing.Tracing // nil: off
	log     *slog.Logger
	cage    atomic.Pointer[cage] // whose sessions are counted, once there is one
}

// watch opens what the configuration asks for.
func (h host) watch(ctx context.Context) (*watch, error) {
	w := &watch{log: h.log}
	w.metrics = metrics.New(buildVersion(), func() session.Counts {
		if c := w.cage.Load(); c != nil {
			return c.Counts()
		}
		return session.Counts{}
	})
	w.tools = []tools.Observer{w.metrics}
	if err := w.trace(ctx, h); err != nil {
		return nil, err
	}
	if path := h.cfg.Log.Audit; path != "" {
		log, err := audit.Open(ctx, audit.Options{
			Path: path, Content: h.cfg.Log.AuditContent, Required: h.cfg.Log.AuditRequired,
			PID: os.Getpid(), Logger: h.log,
		})
		if err != nil {
			return nil, errors.Join(err, w.Close(ctx))
		}
		w.audit = log
		w.tools = append(w.tools, log)
	}
	return w, nil
}

// trace begins to send traces when the standard variables ask for them.
func (w *watch) trace(ctx context.Context, h host) error {
	wanted, err := tracing.Wanted(h.p.getenv)
	if err != nil {
		// Hosts pass their own variables on, so this is no reason to end.
		h.log.WarnContext(ctx, "no traces are sent", "error", err)
		return nil
	}
	if !wanted {
		return nil
	}
	if w.tracing, err = tracing.Open(ctx, buildVersion(), h.log); err != nil {
		return err
	}
	w.tools = append(w.tools, w.tracing)
	return nil
}

// adjust makes a manager tell what it does.
func (w *watch) adjust(o *session.Options) {
	o.Observer = w.metrics
	if w.tracing != nil {
		o.Trace = w.tracing.Step
	}
}

// Close is for the end, when no call can begin any more.
func (w *watch) Close(ctx context.Context) error {
	var errs []error
	if w.audit != nil {
		errs = append(errs, w.audit.Close(ctx))
	}
	if w.tracing != nil {
		if err := w.tracing.Close(ctx); err != nil {
			w.log.WarnContext(ctx, "not all traces were sent", "error", err)
		}
	}
	return errors.Join(errs...)
}
