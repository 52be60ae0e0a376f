//go:build linux

package attacks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/internal/remains"
)

const (
	defaultTimeout = 25.0 // seconds
	defaultAlive   = 5 * time.Second
	// mostMoreFiles is how many open files a server may have more than at its
	// start: idle connections to the Docker daemon come and go. The servers live
	// through many attacks, so that a leak in any of them adds up to more.
	mostMoreFiles = 6
)

// A round is one attack: what it needs, what was made for it, what was seen.
type round struct {
	judge
	*siege
	files   map[string]facts           // files that were made on the host
	before  map[string]map[string]bool // directories' entries before the attack
	names   map[string]bool
	watched *remains.Watch
	notes   []string
	cleanup []func() error
	used    bool // the other session was used
	exposed bool // files of the host were exposed
}

func (r *round) notef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// client is the named session's, started when it is needed.
func (r *round) client(ctx context.Context, name string) (*client, error) {
	place := &r.a
	switch name {
	case "", "a", "A", "same":
	case "other", "b", "B":
		place, r.used = &r.other, true
	default:
		return nil, notRun("the session %q is not known", name)
	}
	if *place != nil && !(*place).Alive() {
		return nil, errors.New("the server has ended")
	}
	if *place == nil {
		c, err := r.lab.start(ctx)
		if err != nil {
			return nil, err
		}
		*place = c
	}
	return *place, nil
}

// play runs an attack and what comes before and after it.
func (r *round) play(ctx context.Context, a attack) (err error) {
	defer func() {
		for _, clean := range slices.Backward(r.cleanup) {
			err = errors.Join(err, clean())
		}
	}()
	if a.Must.HostAction != "" {
		return r.hostAction(ctx, a)
	}
	if err := r.prepare(ctx, a.Must); err != nil {
		return err
	}
	o, err := r.attack(ctx, a)
	if err != nil {
		return err
	}
	if err := r.after(ctx, a.Must, o); err != nil {
		return err
	}
	return r.tidy(ctx)
}

func (r *round) prepare(ctx context.Context, m must) error {
	if _, err := r.client(ctx, ""); err != nil {
		return err
	}
	for _, s := range append([]step{{hostCheck: m.hostCheck}}, m.Then...) {
		for _, dir := range s.Dirs {
			entries, err := snapshot(dir)
			if err != nil {
				return err
			}
			r.before[dir] = entries
		}
	}
	if m.State != "" {
		if _, err := r.a.run(ctx, "state_marker = 4711", 0); err != nil {
			return err
		}
	}
	if err := r.steps(ctx, m.Setup); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	return forgetPeak(r.a.PID())
}

// attack runs the code, beside another run where the attack says so, and
// judges the answer.
func (r *round) attack(ctx context.Context, a attack) (outcome, error) {
	timeout := a.Must.TimeoutS
	if timeout == 0 {
		timeout = defaultTimeout
	}
	free, err := diskFree()
	if err != nil {
		return outcome{}, err
	}
	visitors, logged := r.lab.visitors.Load(), len(r.a.Stderr())
	beside, err := r.beside(ctx, a.Must.Parallel)
	if err != nil {
		return outcome{}, err
	}
	o, err := r.a.run(ctx, a.Code, timeout)
	if err != nil {
		return o, err
	}
	r.notef("%s", o.brief())
	if !a.Must.Info {
		r.answer(a.Must, o)
	}
	if err := beside(o); err != nil {
		return o, err
	}
	if n := r.lab.visitors.Load() - visitors; n > 0 {
		r.faultf("the host's listener was reached %d times", n)
	}
	for log := range strings.Lines(r.a.Stderr()[logged:]) {
		for _, prefix := range a.Must.LogLacksPrefix {
			if strings.HasPrefix(log, prefix) {
				r.faultf("the server's log has the line %.200q", log)
			}
		}
		if strings.ContainsAny(strings.TrimRight(log, "\n"), "\r\x1b") {
			r.faultf("the server's log has a control character: %.200q", log)
		}
	}
	if m := a.Must.HostDiskDeltaMiBMax; m != nil {
		now, err := diskFree()
		if err != nil {
			return o, err
		}
		if free-now > *m {
			r.faultf("%.0f MiB of the host's disk were used, more than %g", free-now, *m)
		}
	}
	return o, r.memory(a.Must, r.a)
}

// beside starts the second run and gives what judges it.
func (r *round) beside(ctx context.Context, p *parallel) (func(first outcome) error, error) {
	if p == nil {
		return func(outcome) error { return nil }, nil
	}
	s, name := p.SameSession, ""
	if p.OtherSession != nil {
		s, name = p.OtherSession, "other"
	}
	if s == nil {
		return nil, notRun("the parallel run has no session")
	}
	c, err := r.client(ctx, name)
	if err != nil {
		return nil, err
	}
	type ended struct {
		outcome
		err error
	}
	done := make(chan ended, 1)
	go func() {
		time.Sleep(500 * time.Millisecond) // the first run is under way
		o, err := c.call(ctx, s.Tool, adapt(s.Args))
		done <- ended{o, err}
	}()
	return func(first outcome) error {
		second := <-done
		if second.err != nil {
			return fmt.Errorf("the parallel run: %w", second.err)
		}
		r.notef("beside it: %s", second.brief())
		r.answer(p.Must, second.outcome)
		for _, pair := range []struct {
			bad words
			in  outcome
		}{{p.Must.LacksInFirst, first}, {p.Must.LacksInSecond, second.outcome}} {
			for _, bad := range pair.bad {
				if strings.Contains(pair.in.Object.Stdout, bad) {
					r.faultf("the output of two runs is mixed: %q in %q", bad, pair.in.Object.Stdout)
				}
			}
		}
		return nil
	}, nil
}

// after judges what the attack left: the session, the server, the host.
func (r *round) after(ctx context.Context, m must, o outcome) error {
	if m.AliveWithinS != nil || m.AliveAfterReset || m.State != "" || len(m.NextLacks)+len(m.NextLacksResult) > 0 {
		if err := r.next(ctx, m); err != nil {
			return err
		}
	}
	if err := r.steps(ctx, m.Then); err != nil {
		return err
	}
	if m.Check != "" {
		if err := r.check(ctx, m.hostCheck); err != nil {
			return err
		}
	}
	if m.AliveWithinS == nil && !m.AliveAfterReset {
		if _, err := r.a.alive(ctx, defaultAlive, false); err != nil {
			r.faultf("%v", err)
		}
	}
	return nil
}

// next judges the call after the attack.
func (r *round) next(ctx context.Context, m must) error {
	if m.State != "" {
		o, err := r.a.run(ctx, "print('kept' if globals().get('state_marker') == 4711 else 'reset')", 0)
		if err != nil {
			return err
		}
		if got := strings.TrimSpace(o.Object.Stdout); got != m.State {
			r.faultf("the state must be %s, but is %q: %s", m.State, got, o.brief())
		}
	}
	within := defaultAlive
	if m.AliveWithinS != nil {
		within = time.Duration(*m.AliveWithinS * float64(time.Second))
	}
	o, err := r.a.alive(ctx, within, m.AliveAfterReset)
	if err != nil {
		r.faultf("%v", err)
	}
	if o.Answer == nil {
		return nil
	}
	for _, bad := range m.NextLacks {
		if strings.Contains(o.seen(), bad) {
			r.faultf("the next answer has %q: %s", bad, o.brief())
		}
	}
	for _, bad := range m.NextLacksResult {
		if o.Object.Result != nil && strings.Contains(*o.Object.Result, bad) || strings.Contains(o.Object.Stdout, bad) {
			r.faultf("the next result has %q: %s", bad, o.brief())
		}
	}
	return nil
}

// tidy gives the next attack a fresh session, and sees that the servers hold
// no more than before.
func (r *round) tidy(ctx context.Context) error {
	r.canaryUnchanged()
	clients := []*client{r.a}
	if r.used && r.other != nil {
		clients = append(clients, r.other)
	}
	for _, c := range clients {
		if o, err := c.call(ctx, "session_reset", map[string]any{}); err != nil || o.Refused() {
			return fmt.Errorf("the session cannot be reset: %w, %+v", err, o)
		}
		if err := c.unchanged(ctx); err != nil {
			r.faultf("%v", err)
		}
		if lines := c.Foreign(); len(lines) > 0 {
			r.faultf("standard output has what is no message: %.300q", lines)
		}
	}
	return nil
}

// unchanged waits until the server has as many sandboxes and files as at its
// start.
func (c *client) unchanged(ctx context.Context) error {
	var files, boxes int
	err := until(ctx, 15*time.Second, func() (bool, error) {
		var err error
		if files, err = openFiles(c.PID()); err != nil {
			return false, err
		}
		boxes, err = c.sandboxes(ctx)
		return files <= c.fds+mostMoreFiles && boxes == 2, err
	})
	if err != nil {
		return fmt.Errorf("the server has %d open files (%d at its start) and %d sandboxes (2): %w", files, c.fds, boxes, err)
	}
	return nil
}
