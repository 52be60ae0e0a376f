//go:build linux

package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// An attack is one line of the corpus.
type attack struct {
	ID    string `json:"id"`
	Class string `json:"class"`
	Why   string `json:"why"`
	Code  string `json:"code"`
	Must  must   `json:"must"`
}

// must is what has to hold. An attack has one for its run, each of its steps
// another.
type must struct {
	// How the run ended, and what it said.
	Verdict      string   `json:"verdict"`
	VerdictAny   words    `json:"verdict_any"`
	Reason       string   `json:"reason"`
	ReasonAny    words    `json:"reason_any"`
	TimeoutS     float64  `json:"timeout_s"`
	WallSMax     *float64 `json:"wall_s_max"`
	RespBytesMax *int     `json:"resp_bytes_max"`

	Has             words  `json:"has"`
	Lacks           words  `json:"lacks"`
	LacksBytes      words  `json:"lacks_bytes"`
	ValidUTF8       bool   `json:"valid_utf8"`
	SingleTextBlock bool   `json:"single_text_block"`
	NoImageContent  bool   `json:"no_image_content"`
	ImageBlocksMax  *int   `json:"image_blocks_max"`
	HasErrorClass   string `json:"has_error_class"`
	Error           *bool  `json:"error"`
	ErrorOrInside   bool   `json:"error_or_inside"`

	// What the sandbox and the server may have used.
	ServerRSSMiBMax     *float64 `json:"server_rss_mib_max"`
	WrittenMiBMax       *float64 `json:"written_mib_max"`
	HostDiskDeltaMiBMax *float64 `json:"host_disk_delta_mib_max"`

	// What comes after the run.
	AliveWithinS    *float64 `json:"alive_within_s"`
	AliveAfterReset bool     `json:"alive_after_reset"`
	ServerAlive     bool     `json:"server_alive"`
	State           string   `json:"state"` // kept or reset
	NextLacks       words    `json:"next_lacks"`
	NextLacksResult words    `json:"next_lacks_result"`
	LogLacksPrefix  words    `json:"server_log_lacks_line_prefix"`

	Setup      []step    `json:"setup"`
	Then       []step    `json:"then"`
	Parallel   *parallel `json:"parallel"`
	HostAction string    `json:"host_action"`
	MustEach   *must     `json:"must_each"`
	hostCheck

	LacksInFirst  words `json:"lacks_in_first"`
	LacksInSecond words `json:"lacks_in_second"`

	GVisor json.RawMessage `json:"gvisor"` // overrides
	Info   bool            `json:"info"`
	Note   string          `json:"note"`
	Needs  string          `json:"needs"`
}

// A hostCheck looks at the host instead of an answer.
type hostCheck struct {
	Check  string   `json:"check"`
	Path   string   `json:"path"`
	Dirs   []string `json:"dirs"`
	Value  any      `json:"value"`
	AfterS float64  `json:"after_s"`
}

// A step is the call of a tool, something done on the host, or a check.
type step struct {
	Tool    string         `json:"tool"`
	Args    map[string]any `json:"args"`
	Session string         `json:"session"` // "" or other
	Repeat  int            `json:"repeat"`
	Must    must           `json:"must"`

	Host string `json:"host"` // mkfile, mkdir, symlink, fifo, socket, swap_loop
	A    string `json:"a"`
	B    string `json:"b"`
	hostCheck
}

// parallel is a second run at the same time.
type parallel struct {
	SameSession  *step `json:"same_session"`
	OtherSession *step `json:"other_session"`
	Must         must  `json:"must"`
}

// UnmarshalJSON takes {"code": ...} for a call of python_run.
func (s *step) UnmarshalJSON(data []byte) error {
	type plain step
	var with struct {
		plain
		Code *string `json:"code"`
	}
	if err := strict(data, &with); err != nil {
		return err
	}
	*s = step(with.plain)
	if with.Code != nil {
		s.Tool, s.Args = "python_run", map[string]any{"code": *with.Code}
	}
	return nil
}

// words is a string or a list of them.
type words []string

func (w *words) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(w))
}

// strict decodes and refuses what it does not know: a condition that nobody
// evaluates must not pass for one that holds.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// forEngine applies the engine's own conditions.
func (l *line) forEngine(engine string, known []weakening) error {
	var err error
	if engine == "gvisor" && l.Must.GVisor != nil {
		if l.Must, err = l.Must.replaced(l.Must.GVisor); err != nil {
			return err
		}
	}
	for _, w := range known {
		if w.ID == l.ID && w.Engine == engine {
			l.weaker = w.Why
			if l.Must, err = l.Must.replaced(w.Must); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaced puts conditions in the place of those of the same kind.
func (m must) replaced(by json.RawMessage) (must, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(by, &keys); err != nil {
		return m, err
	}
	for key := range keys {
		switch key {
		case "verdict", "verdict_any":
			m.Verdict, m.VerdictAny = "", nil
		case "reason", "reason_any":
			m.Reason, m.ReasonAny = "", nil
		}
	}
	return m, strict(by, &m)
}

// A line of the corpus is an attack, or why it cannot be understood.
type line struct {
	attack
	unclear error
	weaker  string // why the engine's own condition stands in for the corpus's
}

// A weakening is what an engine is known not to promise.
type weakening struct {
	ID     string          `json:"id"`
	Engine string          `json:"engine"`
	Why    string          `json:"why"`
	Must   json.RawMessage `json:"must"` // instead, of the same kind
}

func weakenings() ([]weakening, error) {
	text, err := os.ReadFile("testdata/weaker.json")
	if err != nil {
		return nil, err
	}
	var all []weakening
	return all, strict(text, &all)
}

// load reads a corpus and fills in what its attacks are to find on this host.
func load(file, engine string, fill map[string]string) ([]line, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	known, err := weakenings()
	if err != nil {
		return nil, err
	}
	var lines []line
	for number, raw := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		l, err := parse(raw, engine, fill, known)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number+1, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func parse(raw, engine string, fill map[string]string, known []weakening) (line, error) {
	for name, value := range fill {
		quoted, err := json.Marshal(value)
		if err != nil {
			return line{}, err
		}
		raw = strings.ReplaceAll(raw, "{{"+name+"}}", string(quoted[1:len(quoted)-1]))
	}
	var l line
	var head struct {
		ID    string `json:"id"`
		Class string `json:"class"`
	}
	if err := json.Unmarshal([]byte(raw), &head); err != nil {
		return line{}, err
	}
	l.unclear = strict([]byte(raw), &l.attack)
	l.ID, l.Class = head.ID, head.Class
	if at := strings.Index(raw, "{{HOST"); at >= 0 || strings.Contains(raw, "{{EXPOSED") {
		l.unclear = fmt.Errorf("a placeholder is not known: %.60s", raw[max(at, 0):])
	}
	if l.unclear == nil {
		l.unclear = l.forEngine(engine, known)
	}
	return l, nil
}
