package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/internal/remains"
)

// A runner plays one case.
type runner struct {
	bed  *bed
	sc   *scenario
	conf settings
	dir  string   // holds HOST, OUT and the configuration
	env  []string // of the servers

	clients  map[string]*party
	gone     []*party // those whose server was ended, or was told to
	calls    map[string]*pending
	outcomes []*outcome // by step
	fails    []error
}

// A party is a client and what the runner knows of its server.
type party struct {
	*client
	watch   *remains.Watch
	before  *outcome // its last python_run
	open    *openCheck
	fds     int    // descriptors after its first answer
	paused  string // the sandbox that the case paused
	skipEnd bool
}

// An openCheck waits for the next python_run.
type openCheck struct {
	what   string
	expect expect
	check  check
}

// play runs the case, whose text is line, in an environment and with the files
// in dir.
func play(b *bed, line []byte, environment, dir string) error {
	for name, sub := range map[string]string{"$HOST": "host", "$OUT": "out"} {
		path := filepath.Join(dir, sub)
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		line = bytes.ReplaceAll(line, []byte(name), []byte(path))
	}
	sc, err := parse(line)
	if err != nil {
		return err
	}
	conf, err := settingsOf(sc.Config)
	if err != nil {
		return err
	}
	r := &runner{bed: b, sc: &sc, conf: conf, dir: dir, env: os.Environ(), clients: map[string]*party{}, calls: map[string]*pending{}}
	if slices.Contains(sc.Needs, "own-daemon") {
		if err := b.daemon.start(); err != nil {
			return err
		}
		r.env = b.daemon.env()
	}
	for name, value := range conf.ServerEnv {
		r.env = append(r.env, name+"="+value)
	}
	if err := b.writeConfig(r.configPath(), filepath.Join(dir, "host"), sc.Theme, environment, conf); err != nil {
		return err
	}
	r.steps()
	r.finish()
	return errors.Join(r.fails...)
}

func (r *runner) configPath() string { return filepath.Join(r.dir, "biocage.yaml") }

func (r *runner) fail(what string, err error) {
	if err != nil {
		r.fails = append(r.fails, fmt.Errorf("%s: %w", what, err))
	}
}

// steps plays every step until one cannot be played.
func (r *runner) steps() {
	r.outcomes = make([]*outcome, len(r.sc.Steps))
	for i := range r.sc.Steps {
		st := &r.sc.Steps[i]
		what := fmt.Sprintf("step %d (%s)", i, st.Call)
		for range max(st.Repeat, 1) {
			err := r.step(i, st, what)
			r.fail(what, err)
			if err != nil {
				return
			}
		}
	}
}

// step plays one step once. Its error is that the step could not be played;
// mismatches are noted and the case goes on.
func (r *runner) step(i int, st *step, what string) error {
	if verb := harnessVerbs()[st.Call]; verb != nil {
		out, err := verb(r, st)
		if err != nil {
			return err
		}
		r.outcomes[i] = out.first
		r.judge(st, what, out)
		return nil
	}
	p, err := r.party(st.own())
	if err != nil {
		return err
	}
	args, err := st.arguments()
	if err != nil {
		return err
	}
	if st.Background != "" && p.before == nil {
		if err := p.warmUp(); err != nil {
			return err
		}
	}
	var running []*pending
	for range max(st.Parallel, 1) {
		running = append(running, r.begin(p, st.Call, args))
	}
	if st.Background != "" {
		r.calls[st.Background] = running[0]
		return nil
	}
	var got answers
	got.party = p
	for _, call := range running {
		out, err := call.wait()
		if err != nil {
			return err
		}
		got.add(out)
	}
	r.outcomes[i] = got.first
	r.judge(st, what, got)
	return nil
}

// answers are the outcomes of one step.
type answers struct {
	party *party // whose state of mind they change; nil for others
	first *outcome
	all   []*outcome
}

func (a *answers) add(out *outcome) {
	if a.first == nil {
		a.first = out
	}
	a.all = append(a.all, out)
}

// judge looks at each outcome, and at what an earlier step left open.
func (r *runner) judge(st *step, what string, got answers) {
	for _, out := range got.all {
		var before *outcome
		if p := got.party; p != nil && out.call == "python_run" {
			before = p.before
			r.settle(p, out)
			p.before = out
		}
		c := check{out: out, group: got.all, before: before, step: func(i int) *outcome {
			if i < 0 || i >= len(r.outcomes) {
				return nil
			}
			return r.outcomes[i]
		}}
		if err := st.Expect.verify(&c); err != nil {
			r.fail(what, fmt.Errorf("%w\n    %s", err, out.brief()))
		} else if c.open && got.party != nil {
			got.party.open = &openCheck{what: what, expect: st.Expect, check: c}
		}
	}
}

// settle closes an open check with the next python_run.
func (r *runner) settle(p *party, next *outcome) {
	if p.open == nil {
		return
	}
	open := p.open
	p.open = nil
	open.check.after = next
	r.fail(open.what, open.expect.verify(&open.check))
}

// party gives the client of that name, connected.
func (r *runner) party(name string) (*party, error) {
	if p := r.clients[name]; p != nil {
		return p, nil
	}
	argv := []string{r.bed.binary, "--config", r.configPath(), "serve"}
	c, err := connect(name, argv, r.env)
	if err != nil {
		return nil, fmt.Errorf("client %s: %w", name, err)
	}
	p := &party{client: c, watch: remains.New(remains.Options{
		PID:    c.cmd.Process.Pid,
		Docker: r.bed.engine == "docker",
		Env:    r.env,
		Dirs:   remains.RunDirs(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()),
	})}
	r.clients[name] = p
	return p, nil
}

// leave takes a client out of the game; its server is expected to end.
func (r *runner) leave(name string) {
	if p := r.clients[name]; p != nil {
		delete(r.clients, name)
		r.gone = append(r.gone, p)
	}
}

// arguments makes the JSON text of a tool's arguments.
func (st *step) arguments() ([]byte, error) {
	var fields []string
	for name, raw := range st.Args {
		if whole, isParts := strings.CutSuffix(name, "_parts"); isParts {
			joined, err := joinParts(raw)
			if err != nil {
				return nil, err
			}
			name, raw = whole, joined
		}
		fields = append(fields, fmt.Sprintf("%q:%s", name, raw))
	}
	slices.Sort(fields)
	text := []byte("{" + strings.Join(fields, ",") + "}")
	if !st.JSONASCII {
		text = plainJSON(text)
	}
	return text, nil
}

// finish settles what is open, ends the servers and looks for leftovers.
func (r *runner) finish() {
	for name, p := range r.clients {
		if p.open != nil && p.alive() {
			out, err := r.begin(p, "python_run", []byte(`{"code":"1 + 1"}`)).wait()
			r.fail("a last python_run of client "+name, err)
			if err == nil {
				r.settle(p, out)
			}
		}
		r.fail("client "+name, p.look())
		p.closeInput()
		r.leave(name)
	}
	for _, p := range r.gone {
		if !p.exits(30 * time.Second) {
			r.fail("client "+p.name, errors.New("the server did not end within 30 s after its input closed"))
			p.kill()
		}
		if !p.skipEnd {
			r.fail("client "+p.name, p.leftovers(30*time.Second))
		}
		for _, line := range p.strayLines() {
			r.fail("standard output of client "+p.name, errors.New(line))
		}
		if len(r.fails) > 0 {
			r.fails = append(r.fails, fmt.Errorf("log of client %s:\n%s", p.name, p.log))
		}
	}
}

// decode reads a verb's arguments.
func (st *step) decode(into any) error {
	raw, err := json.Marshal(st.Args)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("the arguments of %s are not understood: %w", st.Call, err)
	}
	return nil
}
