package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// Reap implements sandbox.Engine: containers whose owner is dead, containers
// of this engine that it does not know (a creation whose answer was lost), and
// directories of sockets of dead processes. Young containers whose owner may be
// alive are left alone, because they may still be in the making.
func (e *Engine) Reap(ctx context.Context) (int, error) {
	d, err := e.known(ctx)
	if err != nil {
		return 0, err
	}
	list, err := e.listOurs(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	reaped := 0
	for _, c := range list {
		if !e.leftOver(c, d, time.Now()) {
			continue
		}
		if err := e.removeWithin(ctx, c.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		reaped++
		e.opts.Log.InfoContext(ctx, "docker container of a dead process removed", "id", c.ID, "owner", c.Labels[labelOwner])
	}
	if d.local {
		errs = append(errs, e.reapSockets())
	}
	if err := errors.Join(errs...); err != nil {
		return reaped, fmt.Errorf("docker: reap: %w", err)
	}
	return reaped, nil
}

func (e *Engine) listOurs(ctx context.Context) ([]container.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, quickCall)
	defer cancel()
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner))})
	if err != nil {
		return nil, fmt.Errorf("docker: list containers: %w", explain(e.host, err))
	}
	return list, nil
}

func (e *Engine) leftOver(c container.Summary, d *daemon, now time.Time) bool {
	young := now.Sub(time.Unix(c.Created, 0)) < e.opts.ReapGrace
	if c.Labels[labelInstance] == e.instance {
		return !young && !e.holds(c.Names)
	}
	o, err := parseOwner(c.Labels[labelOwner])
	if err != nil {
		return false // not written by us
	}
	switch o.judge(e.me, d.local) {
	case dead:
		return true
	case unknown:
		return !young && c.State != container.StateRunning && c.State != container.StatePaused
	default:
		return false
	}
}

func (e *Engine) holds(names []string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		if _, ok := e.live[strings.TrimPrefix(name, "/")]; ok {
			return true
		}
	}
	return false
}

// reapSockets removes what a killed process left in the directory for
// temporary files: only directories of this user, named for a dead process.
func (e *Engine) reapSockets() error {
	base := filepath.Dir(e.private)
	entries, err := os.ReadDir(base)
	if err != nil {
		return fmt.Errorf("list socket directories: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		o, err := parseOwnerDir(entry.Name())
		if err != nil || !entry.IsDir() || o.judge(e.me, true) != dead {
			continue
		}
		info, err := entry.Info()
		if err != nil || !ownedByUs(info) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(base, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
