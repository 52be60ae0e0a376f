package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A handRun is one `docker run` of the image without a server.
type handRun struct {
	name  string
	flags []string // of docker run
	args  []string // of the program
	code  string   // standard input

	exit   int
	kind   string // of the error, "" without one
	stdout string // a part of it
	text   string // a part of message and hint
}

const noSwap = "--memory-swap=256m"

func handRuns() []handRun {
	locked := []string{"--read-only", "--tmpfs", "/tmp", "--tmpfs", "/work"}
	return []handRun{
		{name: "standard input", code: "print(6 * 7)", stdout: "42\n"},
		{name: "variable", flags: []string{"-e", "PYTHON_CODE=print('by variable')"}, stdout: "by variable\n"},
		{name: "file", args: []string{"/in/script.py"}, stdout: "by file\n"},
		{name: "libraries", code: "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2]})['a'].sum())", stdout: "3\n"},
		{name: "non-root", code: "import os\nprint(os.getuid(), os.getgid())\nopen('/etc/x', 'w')", stdout: "65534 65534\n", exit: 1, kind: "exception", text: "Permission"},
		{name: "workspace", code: "open('made', 'w').write('1')\nopen('/tmp/made', 'w').write('1')\nprint('written')", stdout: "written\n"},
		{name: "read-only", flags: locked, code: "open('made', 'w').write('1')\nopen('/tmp/made', 'w').write('1')\nprint('written')\nopen('/var/tmp/x', 'w')", stdout: "written\n", exit: 1, kind: "exception", text: "Read-only"},
		{name: "time", flags: []string{"-e", "EXECUTION_TIMEOUT=2"}, code: "print('begun', flush=True)\nwhile True: pass", stdout: "begun\n", exit: 124, kind: "timeout", text: "EXECUTION_TIMEOUT"},
		{name: "memory, refused", flags: []string{"--memory=256m", noSwap}, code: "print('begun')\nx = bytearray(600 << 20)", stdout: "begun\n", exit: 1, kind: "exception", text: "256 MiB"},
		{name: "memory, killed", flags: []string{"--memory=256m", noSwap}, code: "import mmap\nm = mmap.mmap(-1, 600 << 20)\nfor at in range(0, len(m), 4096): m[at] = 1", exit: 137, kind: "memory", text: "--memory"},
		{name: "processors", flags: []string{"--cpus=0.5"}, code: "print('slow')", stdout: "slow\n"},
		{name: "exit code", code: "import sys\nsys.exit(7)", exit: 7, kind: "exception"},
		{name: "forged result", code: `print('{"success":true,"exit_code":0}')` + "\nraise ValueError('no')", stdout: `{"success":true`, exit: 1, kind: "exception", text: "no"},
	}
}

// The environment's image runs code without a server and answers as
// `biocage run --json` does.
func TestImageByHand(t *testing.T) {
	program := binary(t)
	image := handImage(t, program)
	in := t.TempDir()
	for _, err := range []error{os.Chmod(in, 0o755), os.WriteFile(filepath.Join(in, "script.py"), []byte("print('by file')"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range handRuns() {
		t.Run(tt.name, func(t *testing.T) {
			flags := append([]string{"-v", in + ":/in:ro"}, tt.flags...)
			out, stderr, code := byHand(t, image, flags, tt.args, tt.code)
			if bytes.Count(out, []byte("\n")) != 1 {
				t.Fatalf("standard output is not one line: %q %s", out, stderr)
			}
			res := parse[handResult](t, out)
			if code != tt.exit || res.ExitCode != tt.exit || res.Success != (tt.exit == 0) || !strings.Contains(res.Stdout, tt.stdout) {
				t.Errorf("exit code %d, want %d: %s %s", code, tt.exit, out, stderr)
			}
			got := handError{}
			if res.Error != nil {
				got = *res.Error
			}
			if got.Kind != tt.kind || !strings.Contains(got.Message+" "+got.Hint, tt.text) {
				t.Errorf("the error is %+v, want %s with %q", got, tt.kind, tt.text)
			}
		})
	}
	t.Run("plain", func(t *testing.T) {
		out, stderr, code := byHand(t, image, nil, []string{"--plain"}, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n{}['k']")
		if code != 1 || string(out) != "out\n" || !strings.HasPrefix(stderr, "err\nTraceback") || !strings.Contains(stderr, "KeyError: 'k'") {
			t.Errorf("exit code %d, %q, %q", code, out, stderr)
		}
	})
	t.Run("as run does", func(t *testing.T) { sameAsRun(t, program, image) })
}

type handError struct {
	Kind    string `json:"kind"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	Line    int    `json:"line"`
}

type handResult struct {
	Success  bool       `json:"success"`
	Status   string     `json:"status"`
	Stdout   string     `json:"stdout"`
	Stderr   string     `json:"stderr"`
	ExitCode int        `json:"exit_code"`
	Result   *string    `json:"result"`
	Images   int        `json:"images"`
	Error    *handError `json:"error"`
}

// sameAsRun compares the two ways to run one script.
func sameAsRun(t *testing.T, program, image string) {
	for _, code := range []string{
		"print('a')\n[1, 2]", "import sys\nprint('e', file=sys.stderr)\ncount = 1\nconut", "raise SystemExit(4)", "import os\nos._exit(3)",
	} {
		byHandOut, _, byHandCode := byHand(t, image, nil, nil, code)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, "run", "--json", "--engine", "docker", "-")
		cmd.Stdin = strings.NewReader(code)
		runOut, err := cmd.Output()
		if runCode := cmd.ProcessState.ExitCode(); runCode != byHandCode {
			t.Errorf("%q: exit code %d by hand, %d by run (%v)", code, byHandCode, runCode, err)
		}
		hand, run := parse[handResult](t, byHandOut), parse[handResult](t, runOut)
		for _, e := range []*handError{hand.Error, run.Error} {
			if e != nil && e.Kind != "exception" {
				e.Hint, e.Message = "", "" // what is left afterwards differs
			}
		}
		if diff := cmp.Diff(run, hand); diff != "" {
			t.Errorf("%q (-run +by hand):\n%s", code, diff)
		}
		names := func(out []byte) []string { return slices.Sorted(maps.Keys(parse[map[string]json.RawMessage](t, out))) }
		if diff := cmp.Diff(names(runOut), names(byHandOut)); diff != "" {
			t.Errorf("%q: fields (-run +by hand):\n%s", code, diff)
		}
	}
}

// handImage makes the image and checks that its containers are nobody's
// leftovers.
func handImage(t *testing.T, program string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "docker", "version").CombinedOutput(); err != nil {
		missing(t, "no Docker daemon answers: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, program, "env", "build", "--engine", "docker").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("docker run --rm -i biocage:latest")) {
		t.Fatalf("env build: %v\n%s", err, out)
	}
	const image = "biocage:latest"
	out, err = exec.CommandContext(ctx, "docker", "image", "inspect", "--format", "{{.Config.User}} {{json .Config.Labels}}", image).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "65534:65534 ") || bytes.Contains(out, []byte("io.biocage")) {
		t.Errorf("the image's user and labels: %v %s", err, out)
	}
	return image
}

func byHand(t *testing.T, image string, flags, args []string, code string) (out []byte, stderr string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	all := slices.Concat([]string{"run", "--rm", "-i", "--network", "none"}, flags, []string{image}, args)
	cmd := exec.CommandContext(ctx, "docker", all...)
	cmd.Stdin = strings.NewReader(code)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatalf("docker run: %v", err)
	}
	return out, errs.String(), cmd.ProcessState.ExitCode()
}
