package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// A scenario is one line of the corpus.
type scenario struct {
	ID     string          `json:"id"`
	Theme  string          `json:"theme"`
	Level  string          `json:"level"`
	Source string          `json:"source"`
	Why    string          `json:"why"`
	Plain  string          `json:"plain"`
	Note   string          `json:"note"`
	Pkgs   []string        `json:"pkgs"`
	Needs  []string        `json:"needs"`
	Hazard string          `json:"hazard"`
	Config json.RawMessage `json:"config"`
	Steps  []step          `json:"steps"`
}

// A step is one call, to the server or to the harness (h.…).
type step struct {
	Call       string                     `json:"call"`
	Args       map[string]json.RawMessage `json:"args"`
	Expect     expect                     `json:"expect"`
	Client     string                     `json:"client"`
	Background string                     `json:"background"`
	Repeat     int                        `json:"repeat"`
	Parallel   int                        `json:"parallel"`
	JSONASCII  bool                       `json:"json_ascii"`
	Note       string                     `json:"note"`
}

// own is the name of the step's client.
func (st *step) own() string {
	if st.Client == "" {
		return "A"
	}
	return st.Client
}

// An expect holds what must be true of an answer, by the names of matchers.
type expect map[string]json.RawMessage

// readCorpus gives the lines of corpus files, named by comma.
func readCorpus(paths string) ([][]byte, error) {
	var lines [][]byte
	for path := range strings.SplitSeq(paths, ",") {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(raw) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				lines = append(lines, line)
			}
		}
	}
	return lines, nil
}

// parse reads one line. Words that the runner does not know are errors: a case
// that is only half understood would pass for the wrong reason.
func parse(line []byte) (scenario, error) {
	var sc scenario
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&sc); err != nil {
		return sc, fmt.Errorf("%s: %w", sc.ID, err)
	}
	var faults []error
	if sc.Level != "must" && sc.Level != "should" {
		faults = append(faults, fmt.Errorf("%s: unknown level %q", sc.ID, sc.Level))
	}
	for _, need := range sc.Needs {
		if !slices.Contains([]string{"container", "host-root", "own-daemon", "no-network"}, need) {
			faults = append(faults, fmt.Errorf("%s: unknown need %q", sc.ID, need))
		}
	}
	if _, err := settingsOf(sc.Config); err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", sc.ID, err))
	}
	for i, st := range sc.Steps {
		if !serverTools[st.Call] && harnessVerbs()[st.Call] == nil {
			faults = append(faults, fmt.Errorf("%s, step %d: unknown call %q", sc.ID, i, st.Call))
		}
		if err := st.Expect.known(); err != nil {
			faults = append(faults, fmt.Errorf("%s, step %d: %w", sc.ID, i, err))
		}
	}
	return sc, errors.Join(faults...)
}

// known tells which keys no matcher understands.
func (e expect) known() error {
	var faults []error
	for key, raw := range e {
		if key == "any_of" {
			var each []expect
			if err := json.Unmarshal(raw, &each); err != nil {
				faults = append(faults, fmt.Errorf("any_of: %w", err))
			}
			for _, one := range each {
				faults = append(faults, one.known())
			}
			continue
		}
		if matchers()[key] == nil {
			faults = append(faults, fmt.Errorf("unknown expectation %q", key))
		}
	}
	return errors.Join(faults...)
}

// settings is a case's config by meaning.
type settings struct {
	DefaultTimeout float64           `json:"default_timeout_seconds"`
	IdleTimeout    float64           `json:"idle_timeout_seconds"`
	ServerEnv      map[string]string `json:"server_env"`
	ExposeRoots    []string          `json:"expose_roots"`
}

func settingsOf(raw json.RawMessage) (settings, error) {
	var s settings
	if raw == nil {
		return s, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, fmt.Errorf("config: %w", err)
	}
	return s, nil
}

// The whole corpus must be understood, also where no case can run.
func TestCorpusIsUnderstood(t *testing.T) {
	lines, err := readCorpus(textFlag("corpus"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range lines {
		sc, err := parse(line)
		if err != nil {
			t.Error(err)
		}
		if seen[sc.ID] {
			t.Errorf("%s comes twice", sc.ID)
		}
		seen[sc.ID] = true
	}
	if len(lines) == 0 {
		t.Error("the corpus is empty")
	}
}

func TestUnknownWordsAreErrors(t *testing.T) {
	const shell = `{"id":"x","theme":"t","level":"must","steps":[%s]}`
	for _, tt := range []struct{ name, line, want string }{
		{"field", `{"id":"x","level":"must","colour":1}`, "colour"},
		{"level", `{"id":"x","level":"may"}`, `level "may"`},
		{"need", `{"id":"x","level":"must","needs":["moon"]}`, `need "moon"`},
		{"setting", `{"id":"x","level":"must","config":{"warp":9}}`, "warp"},
		{"tool", fmt.Sprintf(shell, `{"call":"python_walk"}`), `call "python_walk"`},
		{"verb", fmt.Sprintf(shell, `{"call":"h.dance"}`), `call "h.dance"`},
		{"step field", fmt.Sprintf(shell, `{"call":"h.wait","twice":true}`), "twice"},
		{"expectation", fmt.Sprintf(shell, `{"call":"python_run","expect":{"colour":1}}`), `expectation "colour"`},
		{"expectation inside", fmt.Sprintf(shell, `{"call":"python_run","expect":{"any_of":[{"colour":1}]}}`), `expectation "colour"`},
	} {
		if _, err := parse([]byte(tt.line)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v, want one that names %s", tt.name, err, tt.want)
		}
	}
}
