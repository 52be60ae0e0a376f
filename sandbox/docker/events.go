package docker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// A watcher follows the daemon's events about this engine's containers, from
// which it is known outside the sandbox whether the memory limit killed
// something. It starts with the first container.
type watcher struct {
	api      *client.Client
	instance string
	log      *slog.Logger

	once sync.Once
	stop context.CancelFunc // set by start
	done chan struct{}      // closed when the goroutine ended

	mu    sync.Mutex
	fates map[string]*fate // guarded by mu; by container id
}

// A fate is what events told about one container.
type fate struct {
	oom  int64
	died chan struct{} // closed at the event "die"
	dead bool
}

func newWatcher(api *client.Client, instance string, log *slog.Logger) *watcher {
	return &watcher{api: api, instance: instance, log: log, done: make(chan struct{}), fates: map[string]*fate{}}
}

// track begins to remember events of the container id.
func (w *watcher) track(id string) {
	w.mu.Lock()
	w.fates[id] = &fate{died: make(chan struct{})}
	w.mu.Unlock()
	w.once.Do(w.start)
}

func (w *watcher) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.fates, id)
}

// ooms is how often the memory limit killed in the container; -1 when unknown.
func (w *watcher) ooms(id string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.fates[id]; f != nil {
		return f.oom
	}
	return -1
}

// oomsAtEnd waits until the end of the container was told, so that every
// event before it was seen, for at most the given time.
func (w *watcher) oomsAtEnd(id string, wait time.Duration) int64 {
	w.mu.Lock()
	f := w.fates[id]
	w.mu.Unlock()
	if f == nil {
		return -1
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-f.died:
	case <-timer.C:
	}
	return w.ooms(id)
}

// start does not wait for the daemon: the stream tells what has happened since.
func (w *watcher) start() {
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // it lives as long as the watcher
	w.stop = stop
	go w.follow(ctx, time.Now().UnixNano())
}

func (w *watcher) listen(ctx context.Context, since time.Time) (<-chan events.Message, <-chan error) {
	args := filters.NewArgs(
		filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("label", labelInstance+"="+w.instance),
		filters.Arg("event", string(events.ActionOOM)), filters.Arg("event", string(events.ActionDie)))
	stamp := fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond())
	return w.api.Events(ctx, events.ListOptions{Since: stamp, Filters: args})
}

// follow runs until stop; a broken stream is taken up again where it broke.
func (w *watcher) follow(ctx context.Context, last int64) {
	defer close(w.done)
	for ctx.Err() == nil {
		messages, errs := w.listen(ctx, time.Unix(0, last))
		err := w.read(messages, errs, &last)
		if ctx.Err() != nil {
			return
		}
		w.log.WarnContext(ctx, "docker event stream broke, memory kills may be missed until it is back", "error", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// read notes events until the stream ends; last is the time of the latest.
func (w *watcher) read(messages <-chan events.Message, errs <-chan error, last *int64) error {
	for {
		select {
		case m := <-messages:
			if m.TimeNano > *last { // not told before the stream broke
				*last = m.TimeNano
				w.note(m)
			}
		case err := <-errs:
			return err
		}
	}
}

func (w *watcher) note(m events.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fates[m.Actor.ID]
	if f == nil {
		return
	}
	switch m.Action {
	case events.ActionOOM:
		f.oom++
	case events.ActionDie:
		if !f.dead {
			f.dead = true
			close(f.died)
		}
	}
}

func (w *watcher) close() {
	w.once.Do(func() { close(w.done) }) // never started
	if w.stop != nil {
		w.stop()
	}
	<-w.done
}
