package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// Limits bound one session beneath the configuration. A zero field stands for
// what is configured.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	PIDs        int64
	DiskBytes   int64
	Timeout     time.Duration // of a run that names none, and the most that one may ask for
	MaxOutput   int64
}

// errReplaced: the sandbox in the making is no longer the session's.
var errReplaced = errors.New("the sandbox was replaced by session_reset")

// check tells, in one sentence, which limit is not within the configured ones.
func (l Limits) check(ceiling sandbox.Limits, opts Options) error {
	for _, f := range []struct {
		name, key          string
		asked, least, most float64
		text               func(float64) string
	}{
		{"memory", "sandbox.memory", float64(l.MemoryBytes), 64 << 20, float64(ceiling.MemoryBytes), sizeText},
		{"cpus", "sandbox.cpus", l.CPUs, 0.01, ceiling.CPUs, numberText},
		{"pids", "sandbox.pids", float64(l.PIDs), 16, float64(ceiling.PIDs), numberText},
		{"disk", "sandbox.disk", float64(l.DiskBytes), 1 << 20, float64(ceiling.DiskBytes), sizeText},
		{"timeout_seconds", "run.max_timeout", l.Timeout.Seconds(), 0.1, opts.MaxTimeout.Seconds(), numberText},
		{"max_output", "run.max_output", float64(l.MaxOutput), 1 << 10, float64(opts.MaxOutput), sizeText},
	} {
		if f.asked != 0 && (f.asked < min(f.least, f.most) || f.asked > f.most) {
			return &ArgumentError{Argument: "limits", Message: fmt.Sprintf(
				"limits.%s is %s, but must be between %s and %s, the server's own limit (%s).",
				f.name, f.text(f.asked), f.text(min(f.least, f.most)), f.text(f.most), f.key)}
		}
	}
	return nil
}

func numberText(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// sizeText writes a size as the configuration does.
func sizeText(n float64) string {
	for _, u := range []struct {
		unit int64
		name string
	}{{1 << 30, "g"}, {1 << 20, "m"}, {1 << 10, "KiB"}} {
		if size := int64(n); size >= u.unit && size%u.unit == 0 {
			return strconv.FormatInt(size/u.unit, 10) + u.name
		}
	}
	return numberText(n) + " bytes"
}

// over gives base with these limits in the place of the configured ones.
func (l Limits) over(base Base) Base {
	own := base.Spec.Limits
	base.Spec.Limits = sandbox.Limits{
		MemoryBytes: orElse(l.MemoryBytes, own.MemoryBytes),
		CPUs:        orElse(l.CPUs, own.CPUs),
		PIDs:        orElse(l.PIDs, own.PIDs),
		DiskBytes:   orElse(l.DiskBytes, own.DiskBytes),
	}
	return base
}

// needsOwnSandbox tells whether a sandbox with the configured limits, as the
// pool holds them, is the wrong one.
func (l Limits) needsOwnSandbox() bool {
	return l.MemoryBytes != 0 || l.CPUs != 0 || l.PIDs != 0 || l.DiskBytes != 0
}

func orElse[T int64 | float64 | time.Duration](own, configured T) T {
	if own == 0 {
		return configured
	}
	return own
}

// ownLimits gives what the session asked for itself.
func (s *session) ownLimits() Limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits
}

// base is the manager's base under the session's own limits.
func (s *session) base(ctx context.Context) (Base, error) {
	base, err := s.m.theBase(ctx)
	if err != nil {
		return Base{}, err
	}
	return s.ownLimits().over(base), nil
}

// maxOutput is how much is kept of each text of a run.
func (s *session) maxOutput() int64 { return orElse(s.ownLimits().MaxOutput, s.m.opts.MaxOutput) }

// renew puts a new sandbox with limits in the place of the session's own. The
// old one ends when the new one is ready: after an error nothing has changed.
func (s *session) renew(ctx context.Context, limits Limits) (*kernel, error) {
	base, err := s.m.theBase(ctx)
	if err != nil {
		return nil, s.m.startError(err)
	}
	if err := limits.check(base.Spec.Limits, s.m.opts); err != nil {
		return nil, err
	}
	life, cancel := context.WithTimeout(s.m.life, s.m.opts.StartTimeout)
	b := &boot{done: make(chan struct{}), cancel: cancel}
	s.m.spawn(func() {
		defer close(b.done)
		defer cancel()
		// A call that was given up must not take the state away later.
		defer context.AfterFunc(ctx, cancel)()
		k, err := s.fresh(life, limits.over(base), limits.needsOwnSandbox())
		if err == nil {
			err = s.replace(ctx, b, k, limits)
		}
		if err != nil {
			b.err = err
		}
	})
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if b.err != nil {
		return nil, s.renewError(b.err)
	}
	return b.kernel, nil
}

// renewError says that the session is as it was.
func (s *session) renewError(err error) error {
	told := s.m.startError(err)
	var failed *SandboxError
	if !errors.As(told, &failed) {
		return told
	}
	return &SandboxError{Message: cut(failed.Message, 600) + " The session is as it was; limits that are too low may be the reason.", Err: err}
}

// replace makes k the session's kernel, with its limits, and ends what was
// there before, unless ctx, the call that asked for it, has been given up.
func (s *session) replace(ctx context.Context, b *boot, k *kernel, limits Limits) error {
	s.mu.Lock()
	refused := context.Cause(ctx)
	if s.ended {
		refused = &EndedError{Why: s.why}
	}
	if refused != nil {
		s.mu.Unlock()
		return errors.Join(refused, k.close(context.WithoutCancel(ctx)))
	}
	old, r := s.boot, s.run
	b.kernel = k
	s.boot, s.limits, s.cells, s.pendingLoss = b, limits, 0, ""
	s.mu.Unlock()
	if r.running() {
		r.halt(KindCancelled, "The run was ended by session_reset.")
	}
	if old == nil {
		return nil
	}
	s.m.spawn(func() {
		<-old.done
		if old.err == nil {
			s.discard(old.kernel)
		}
	})
	return nil
}
