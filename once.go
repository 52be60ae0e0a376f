package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/internal/config"
	"github.com/biocypher/biocage-mcp/session"
	"github.com/biocypher/biocage-mcp/tools"
)

const (
	maxCode       = 16 << 20        // bytes of a script
	interruptWait = 3 * time.Second // for a script to end after a signal
)

const onceHelp = `Run one script in a fresh sandbox that is gone afterwards. The code comes from
FILE, from standard input (-), or from PYTHON_CODE. Standard output, standard
error and the exit code pass through; 124 means the time limit, 137 the memory
limit, 130 an interrupt.

  --json                    print the result object instead
  --timeout 30s             time limit
  --memory 2g               memory limit
  --cpus 2                  CPU limit
  --pids 256                limit on processes and threads
  --disk 1g                 limit on the workspace and on /tmp, each
  --max-output 32KiB        how much of each text a result object holds
  --network                 allow the network (none is the default)
  --expose HOST[:SANDBOX][:rw]
                            show a host path, below /data by default; repeatable
  --out DIR                 put images and new files there
`

// onceFlags are the flags of run.
type onceFlags struct {
	*flagSet
	json bool
	out  string
}

func newOnceFlags() *onceFlags {
	f := &onceFlags{flagSet: newFlags("run", "run [FLAGS] [FILE|-]", onceHelp)}
	f.runs = true
	f.BoolVar(&f.json, "json", false, "")
	f.StringVar(&f.out, "out", "", "")
	f.key("timeout", "run.timeout")
	f.key("memory", "sandbox.memory")
	f.key("cpus", "sandbox.cpus")
	f.key("pids", "sandbox.pids")
	f.key("disk", "sandbox.disk")
	f.key("max-output", "run.max_output")
	f.BoolFunc("network", "", func(value string) error {
		switch value {
		case "true":
			value = "full"
		case "false":
			value = "none"
		}
		f.values["sandbox.network"] = value
		return nil
	})
	f.Func("expose", "", func(value string) error {
		mount, err := exposeFlag(value)
		f.mounts = append(f.mounts, mount)
		return err
	})
	return f
}

// exposeFlag reads HOST[:SANDBOX][:ro|:rw].
func exposeFlag(value string) (config.Mount, error) {
	rest, mode := value, "ro"
	for _, m := range []string{"ro", "rw"} {
		if cut, ok := strings.CutSuffix(value, ":"+m); ok {
			rest, mode = cut, m
		}
	}
	hostPath, target, _ := strings.Cut(rest, ":")
	if hostPath == "" {
		return config.Mount{}, errors.New("write HOST, HOST:SANDBOX or HOST:SANDBOX:rw")
	}
	absolute, err := filepath.Abs(hostPath)
	if err != nil {
		return config.Mount{}, err
	}
	if target == "" {
		target = path.Join("/data", filepath.Base(absolute))
	}
	return config.Mount{Host: absolute, Sandbox: target, Mode: mode}, nil
}

func runOnce(ctx context.Context, p process, args []string) error {
	f := newOnceFlags()
	files, done, err := f.parseMixed(p, joinNetwork(args))
	if done || err != nil {
		return err
	}
	cfg, err := f.settle(p)
	if err != nil {
		return err
	}
	code, err := readCode(p, files)
	if err != nil {
		return err
	}
	if err := checkOut(f.out); err != nil {
		return err
	}
	h := host{p: p, cfg: cfg, log: newLogger(p.stderr, cfg.Log)}
	c, err := newCage(ctx, h, newBaseMaker(h), func(o *session.Options) {
		o.Warm, o.AnswerWithin = 0, o.StartTimeout+cfg.Run.Timeout.Std()+o.InterruptGrace+time.Minute
	})
	if err != nil {
		return err
	}
	s := script{h: h, cage: c, ref: session.Ref{Connection: "run"}, flags: f}
	err = s.run(ctx, code)
	return errors.Join(err, c.end(ctx, patientClose))
}

// joinNetwork lets --network be followed by its value as a word of its own.
func joinNetwork(args []string) []string {
	var out []string
	for i, arg := range args {
		if i > 0 && strings.TrimLeft(args[i-1], "-") == "network" && strings.HasPrefix(args[i-1], "-") && (arg == "none" || arg == "full") {
			out[len(out)-1] += "=" + arg
			continue
		}
		out = append(out, arg)
	}
	return out
}

// settle reads the configuration with what a single run changes: whoever
// types a time limit is allowed it, and logs only what is wrong.
func (f *onceFlags) settle(p process) (config.Config, error) {
	if d, err := config.ParseDuration(f.values["run.timeout"]); err == nil && d > 0 {
		f.values["run.max_timeout"] = d.String()
	}
	if f.values["log.level"] == "" && p.getenv("BIOCAGE_LOG_LEVEL") == "" {
		f.values["log.level"] = "warn"
	}
	return f.load(p)
}

// readCode finds the script.
func readCode(p process, args []string) (string, error) {
	var source io.Reader
	switch code := p.getenv("PYTHON_CODE"); {
	case len(args) > 1:
		return "", usageError{fmt.Sprintf("run takes one script; %q is too much", args[1])}
	case len(args) == 1 && args[0] != "-":
		file, err := os.Open(args[0])
		if err != nil {
			return "", usageError{"the script cannot be read: " + err.Error()}
		}
		defer file.Close() //nolint:errcheck // opened for reading
		source = file
	case len(args) == 0 && code != "":
		return code, nil
	case len(args) == 0 && isTerminal(p.stdin):
		return "", usageError{"run needs a script: a FILE, - for standard input, or PYTHON_CODE (biocage run --help)"}
	default:
		source = p.stdin
	}
	code, err := io.ReadAll(io.LimitReader(source, maxCode+1))
	switch {
	case err != nil:
		return "", usageError{"the script cannot be read: " + err.Error()}
	case len(code) > maxCode:
		return "", usageError{fmt.Sprintf("the script is larger than %d bytes", maxCode)}
	}
	return string(code), nil
}

// checkOut tells before anything runs that results could not be put there.
func checkOut(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as readable as any program's output
		return usageError{fmt.Sprintf("--out: %s cannot be a folder; name one that is there or can be made: %v", dir, err)}
	}
	return nil
}

// A script is one run and what comes of it.
type script struct {
	h     host
	cage  *cage
	ref   session.Ref
	flags *onceFlags
}

func (s script) run(ctx context.Context, code string) error {
	res, err := s.cage.Run(ctx, s.ref, session.RunRequest{Code: code})
	if err != nil {
		if ctx.Err() != nil {
			return exitError{130}
		}
		return err
	}
	if ctx.Err() != nil {
		res = s.interrupted(ctx, res)
		ctx = context.WithoutCancel(ctx)
	}
	if s.flags.out != "" && kind(res) != session.KindSandbox {
		if err := s.collect(ctx, &res); err != nil {
			return fmt.Errorf("put files into %s: %w", s.flags.out, err)
		}
	}
	if s.flags.json {
		encoder := json.NewEncoder(s.h.p.stdout)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(res)
	} else {
		err = s.pass(ctx, res)
	}
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if res.ExitCode != 0 {
		return exitError{res.ExitCode}
	}
	return nil
}

// interrupted gives the script a moment to end after a signal, so that what it
// wrote before is not lost.
func (s script) interrupted(ctx context.Context, res session.RunResult) session.RunResult {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptWait)
	defer cancel()
	ended, err := s.cage.Wait(ctx, s.ref, session.WaitRequest{RunID: res.RunID})
	if err != nil || ended.Status != session.StatusDone {
		return res
	}
	ended.Success, ended.ExitCode = false, 130
	return ended
}

func kind(res session.RunResult) string {
	if res.Error == nil {
		return ""
	}
	return res.Error.Kind
}

// pass hands on what the script wrote; the whole, also where the result
// object carries only its head and tail.
func (s script) pass(ctx context.Context, res session.RunResult) error {
	if err := s.stream(ctx, s.h.p.stdout, res.Stdout, res.Spool["stdout"]); err != nil {
		return err
	}
	if err := s.stream(ctx, s.h.p.stderr, res.Stderr, res.Spool["stderr"]); err != nil {
		return err
	}
	if res.Error == nil {
		return nil
	}
	var text string
	switch e := res.Error; {
	case e.Kind == session.KindException && e.Type == "SystemExit":
	case e.Kind == session.KindException:
		text = strings.TrimRight(e.Traceback, "\n") + "\n"
	default:
		text = strings.TrimSpace("biocage: "+e.Message+" "+onceHint(e.Kind)) + "\n"
	}
	return s.stream(ctx, s.h.p.stderr, text, "")
}

// onceHint is what to do about a failure where nothing is left afterwards; the
// result's own hint speaks of a session that goes on.
func onceHint(kind string) string {
	switch kind {
	case session.KindTimeout:
		return "Pass a larger --timeout if it needs longer."
	case session.KindMemory:
		return "Pass a larger --memory if it needs more."
	}
	return ""
}

// stream writes a text, or the file that holds the whole of it. A terminal
// gets no control sequences from the sandbox.
func (s script) stream(ctx context.Context, w io.Writer, text, spool string) error {
	if isTerminal(w) {
		_, err := io.WriteString(w, tools.Sanitize(text))
		return err
	}
	if spool != "" {
		err := s.copyFile(ctx, w, spool)
		if err == nil {
			return nil
		}
		s.h.log.WarnContext(ctx, "output is not complete", "error", err)
	}
	_, err := io.WriteString(w, text)
	return err
}

// copyFile copies a file of the sandbox in parts.
func (s script) copyFile(ctx context.Context, w io.Writer, path string) error {
	for offset := int64(0); ; {
		part, err := s.cage.ReadFile(ctx, s.ref, session.ReadRequest{Path: path, Offset: offset, Limit: 1 << 20})
		if err != nil {
			return err
		}
		if _, err := w.Write(part.Data); err != nil {
			return err
		}
		if part.NextOffset <= offset {
			return nil
		}
		offset = part.NextOffset
	}
}
