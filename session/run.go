package session

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/pyagent"
)

// A run is one cell from its start to its result. A goroutine of its own
// drives it, so that it outlives the call that asked for it.
type run struct {
	id      string
	code    string
	limit   time.Duration
	started time.Time
	out     *collector
	stop    chan stopCause // capacity 1: the first cause counts
	done    chan struct{}
	result  RunResult // valid after done

	readers int    // calls that wait for the result; guarded by the session's mu
	read    bool   // some call has it; guarded by the session's mu
	passed  bool   // a later run has begun; guarded by the session's mu
	reset   bool   // a reset was asked for meanwhile; guarded by the session's mu
	earlier string // the loss before it that its result tells; valid after done
	lost    bool   // its sandbox went with it; valid after done
}

// A stopCause says why a run is interrupted before its own end.
type stopCause struct {
	kind string // KindTimeout or KindCancelled
	text string
	kill bool // do not wait for the interrupt ladder: the sandbox is being closed
}

func (r *run) running() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// interrupt asks for the run's end; only the first cause counts.
func (r *run) interrupt(kind, text string) { r.request(stopCause{kind: kind, text: text}) }

// halt says that the sandbox itself is being closed.
func (r *run) halt(kind, text string) { r.request(stopCause{kind: kind, text: text, kill: true}) }

func (r *run) request(c stopCause) {
	select {
	case r.stop <- c:
	default:
	}
}

// Run runs one cell. A failure of the code is a result, not an error. The
// error is one of this package's: ArgumentError, BusyError, SandboxError,
// ErrUnknown, ErrTooMany, ErrClosed, or the context's cause.
func (m *Manager) Run(ctx context.Context, ref Ref, req RunRequest) (res RunResult, err error) {
	if _, err := m.limit(req.Timeout, 0); err != nil {
		return RunResult{}, err // before a session is made for it
	}
	s, err := m.enter(ctx, ref, begins)
	if err != nil {
		return RunResult{}, err
	}
	defer func() {
		res.Begun = s.begun
		s.leave(ctx, err)
	}()
	ctx, end := m.step(ctx, "session.run")
	defer func() {
		if err != nil {
			end(KindSandbox)
			return
		}
		end(res.outcome())
	}()
	limit, err := m.limit(req.Timeout, s.ownLimits().Timeout)
	if err != nil {
		return RunResult{}, err
	}
	due := time.Now().Add(m.opts.AnswerWithin)
	if err := s.takeTurn(ctx); err != nil {
		return RunResult{}, err
	}
	r, err := s.begin(ctx, req.Code, limit)
	if err != nil {
		<-s.turn
		return RunResult{}, err
	}
	result, gone := s.await(ctx, r, max(time.Until(due), leastWait), req.Progress)
	if gone != nil { // the caller has gone: nobody reads this answer
		r.interrupt(KindCancelled, "The call was cancelled.")
		return s.cancelled(r), nil
	}
	return result, nil
}

// leastWait is how long a run that had to queue is given before it is
// answered as running.
const leastWait = time.Second

// limit gives a run's time limit; own is the session's, 0 when it has none.
func (m *Manager) limit(asked, own time.Duration) (time.Duration, error) {
	usual, most, source := m.opts.Timeout, m.opts.MaxTimeout, "run.max_timeout"
	if own != 0 {
		usual, most, source = own, own, "the limit that session_reset set for this session"
	}
	switch {
	case asked == 0:
		return usual, nil
	case asked < 0 || asked > most:
		return 0, &ArgumentError{Argument: "timeout_seconds", Message: fmt.Sprintf(
			"timeout_seconds must be above 0 and at most %g (%s); leave it out for the default of %g.",
			most.Seconds(), source, usual.Seconds())}
	}
	return asked, nil
}

// takeTurn waits for the runs before; its order is the order of calls. It is
// given up when one run holds the session for long, not because the queue is
// long or the sandbox is still starting.
func (s *session) takeTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	held, stop := s.watchQueue(ctx, time.Now())
	defer stop()
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case busy := <-held:
		return busy
	}
}

// watchQueue tells when a call that waits since begun has to be refused. It
// looks from the side, because a waiter that stopped to look would lose its
// place.
func (s *session) watchQueue(ctx context.Context, begun time.Time) (held <-chan *BusyError, stop func()) {
	refused := make(chan *BusyError, 1)
	ctx, cancel := context.WithCancel(ctx)
	var look func()
	look = func() {
		busy, next := s.heldUp(begun)
		switch {
		case ctx.Err() != nil:
		case busy != nil:
			refused <- busy
		default:
			time.AfterFunc(next, look)
		}
	}
	time.AfterFunc(min(s.m.opts.QueueWait, s.m.opts.AnswerWithin), look)
	return refused, cancel
}

// heldUp tells why a call that waits since begun should wait no longer, or
// when to ask again.
func (s *session) heldUp(begun time.Time) (busy *BusyError, next time.Duration) {
	const often = 250 * time.Millisecond
	s.mu.Lock()
	defer s.mu.Unlock()
	busy = &BusyError{Session: s.handle}
	if s.run.running() {
		busy.RunID, busy.Since = s.run.id, time.Since(s.run.started)
	}
	left := s.m.opts.AnswerWithin - time.Since(begun)
	switch {
	case left <= 0:
		return busy, 0
	case busy.RunID == "":
		return nil, min(often, left) // between two runs, or the sandbox is being made
	case busy.Since >= s.m.opts.QueueWait:
		return busy, 0
	}
	return nil, min(max(s.m.opts.QueueWait-busy.Since, often), left)
}

// begin starts the cell; the turn passes to the goroutine that drives it.
func (s *session) begin(ctx context.Context, code string, limit time.Duration) (*run, error) {
	k, err := s.kernel(ctx)
	if err != nil {
		return nil, err
	}
	maxOutput := s.maxOutput()
	s.mu.Lock()
	s.reclaim(s.run)
	s.runs++
	s.cells++
	r := &run{
		id: "run-" + strconv.Itoa(s.runs), code: code, limit: limit, started: time.Now(),
		out:  newCollector(maxOutput),
		stop: make(chan stopCause, 1), done: make(chan struct{}),
	}
	s.run = r
	cell := s.cells
	s.mu.Unlock()
	_, end := s.m.step(ctx, "agent.execute")
	exec, err := k.conn.Execute(pyagent.ExecuteRequest{Code: code, MaxOutput: maxOutput, Count: cell}, r.out)
	if err != nil {
		k.markGone(err)
		err = s.lost(k, true)
		end(KindSandbox)
		close(r.done) // nobody has seen it
		return nil, err
	}
	s.m.spawn(func() { s.drive(k, r, exec, end) })
	return r, nil
}

// lost makes the error of a call that found its sandbox gone.
func (s *session) lost(k *kernel, state bool) error {
	<-k.gone
	return &SandboxError{
		Message: fmt.Sprintf("The call did not reach the sandbox: %s. Call again to get a new one.", k.why),
		Lost:    state, Err: k.why,
	}
}

// patience is how long the supervisor may take beyond the grace before the
// whole sandbox is given up.
const patience = 5 * time.Second

// drive waits for the end of a run, by itself or by the interrupt ladder, and
// makes its result. It holds the session's turn.
func (s *session) drive(k *kernel, r *run, exec *pyagent.Execution, end func(outcome string)) {
	defer func() { <-s.turn }()
	defer s.touch()
	defer close(r.done)
	deadline := time.NewTimer(r.limit)
	defer deadline.Stop()
	var cause *stopCause
	select {
	case <-exec.Done():
	case <-deadline.C:
		cause = &stopCause{kind: KindTimeout}
	case c := <-r.stop:
		cause = &c
	}
	if cause != nil {
		s.stopRun(k, exec, cause)
	}
	took := time.Since(r.started)
	reply, err := exec.Reply()
	r.result = s.makeResult(k, r, outcome{reply: reply, err: err, cause: cause, took: took})
	s.record(r.code, r.result)
	r.code = ""
	s.m.watch.CellEnded(r.result.outcome(), took, r.result.Restarted)
	end(r.result.outcome())
	if s.m.opts.StopOnFailure && !r.result.Success {
		s.stopAfterFailure(k)
	}
}

// touch notes that something happened in the session.
func (s *session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUse = time.Now()
}

// stopRun climbs the interrupt ladder and returns when the cell has ended.
func (s *session) stopRun(k *kernel, exec *pyagent.Execution, cause *stopCause) {
	grace := s.m.opts.InterruptGrace
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.m.life), grace+patience)
	defer cancel()
	if !cause.kill {
		if _, err := exec.Interrupt(ctx, grace); err != nil {
			s.m.log.DebugContext(ctx, "interrupt", slog.String("session", s.label), slog.Any("error", err))
		}
	}
	select {
	case <-exec.Done():
		return
	case <-ctx.Done():
	}
	// The supervisor itself does not answer: only the sandbox's end is left.
	k.markGone(fmt.Errorf("the sandbox did not react to an interrupt within %s", grace+patience))
	if err := k.close(context.WithoutCancel(s.m.life)); err != nil {
		s.m.log.WarnContext(ctx, "sandbox not fully closed", slog.String("session", s.label), slog.Any("error", err))
	}
	<-exec.Done()
}

// stopAfterFailure honours run.stop_session_on_failure.
func (s *session) stopAfterFailure(k *kernel) {
	s.mu.Lock()
	if s.boot == nil || s.boot.kernel != k {
		s.mu.Unlock()
		return // it has been given up or replaced already
	}
	s.boot = nil
	s.pendingLoss = addLoss(s.pendingLoss, "the run before failed and run.stop_session_on_failure is set; variables and files of the workspace are gone")
	s.mu.Unlock()
	s.discard(k)
}

// await waits for a run's result, or answers that it is still running. The end
// of ctx leaves the run alone.
func (s *session) await(ctx context.Context, r *run, within time.Duration, progress func(Progress)) (res RunResult, err error) {
	s.attend(r)
	defer func() { s.unattend(r, err == nil && res.Status == StatusDone) }()
	due := time.NewTimer(within)
	defer due.Stop()
	beat := time.NewTicker(500 * time.Millisecond)
	defer beat.Stop()
	if progress == nil {
		beat.Stop()
	}
	for {
		select {
		case <-r.done:
			return r.result, nil
		case <-due.C:
			return s.stillRunning(r), nil
		case <-ctx.Done():
			return RunResult{}, context.Cause(ctx)
		case <-beat.C:
			progress(r.out.progress(time.Since(r.started)))
		}
	}
}

// cancelled gives a run that its caller has given up: nobody may read it, so
// it does not wait for the ladder's end.
func (s *session) cancelled(r *run) RunResult {
	return RunResult{
		Status: StatusDone, RunID: r.id, ExitCode: exitCancelled, Session: s.handle, Files: []FileRef{},
		ExecutionTime: time.Since(r.started).Seconds(),
		Error: &RunError{
			Kind: KindCancelled, Message: "The call was cancelled; the code is being interrupted.",
			Hint: "Variables are kept when the code can be interrupted; python_wait tells how it ended.",
		},
	}
}

// stillRunning is the answer when the run outlasts answer_within.
func (s *session) stillRunning(r *run) RunResult {
	stdout, stderr := r.out.soFar()
	return RunResult{
		Success: true, Status: StatusRunning, RunID: r.id, Session: s.handle, Files: []FileRef{},
		Stdout: stdout, Stderr: stderr, ExecutionTime: time.Since(r.started).Seconds(),
		Notes: []string{fmt.Sprintf(
			"The code still runs (limit %s). Call python_wait with run_id %q for the rest, or with interrupt true to stop it and keep the state.", r.limit, r.id)},
	}
}

// Wait gives the result of a run that was answered as running.
func (m *Manager) Wait(ctx context.Context, ref Ref, req WaitRequest) (RunResult, error) {
	s, err := m.enter(ctx, ref, needs)
	if err != nil {
		return RunResult{}, err
	}
	if s == nil {
		return RunResult{}, ErrNoRun
	}
	defer s.leave(ctx, nil)
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	if r == nil || req.RunID != "" && !strings.EqualFold(req.RunID, r.id) {
		return RunResult{}, ErrNoRun
	}
	if req.Interrupt {
		r.interrupt(KindCancelled, "Interrupted by python_wait.")
	}
	within := min(max(req.Wait, 0), m.opts.AnswerWithin)
	if req.Wait == 0 {
		within = m.opts.AnswerWithin
	}
	return s.await(ctx, r, within, req.Progress)
}
