package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/biocypher/biocage-mcp/tools"
)

// maxCode bounds the code that a line may carry.
const maxCode = 8 << 10

// KindEnded is the outcome of calls that still ran when the server ended.
const KindEnded = "ended"

// A line is what the log says of one call.
type line struct {
	Time       time.Time `json:"time"` // when the call began
	Request    string    `json:"request"`
	PID        int       `json:"pid"`
	Principal  string    `json:"principal"`
	Connection string    `json:"connection"`
	Session    string    `json:"session"`
	Tool       string    `json:"tool"`
	Arguments  string    `json:"arguments_sha256"`
	Outcome    string    `json:"outcome"`
	Refusal    string    `json:"refusal,omitempty"`
	ExitCode   int       `json:"exit_code"`
	Milli      int64     `json:"ms"`
	BytesIn    int       `json:"bytes_in"`
	BytesOut   int       `json:"bytes_out"`
	Code       *string   `json:"code,omitempty"`
	CodeCut    bool      `json:"code_cut,omitempty"`
	Lost       int64     `json:"lost,omitempty"` // lines before this one that could not be written
}

func (l *Log) line(c *tools.Call, e tools.End) line {
	arguments := c.Arguments()
	var asked struct {
		Code    *string `json:"code"`
		Session string  `json:"session"`
	}
	// What has another type is left out; such calls are refused.
	_ = json.Unmarshal(arguments, &asked)
	out := line{
		Time: c.Began.UTC(), Request: c.Request, PID: l.opts.PID,
		Principal: c.Principal, Connection: short(c.Connection), Session: short(cmp.Or(e.Session, asked.Session)),
		Tool: c.Tool, Arguments: digest(arguments),
		Outcome: e.Kind, Refusal: e.Refusal, ExitCode: e.ExitCode,
		Milli: e.Took.Milliseconds(), BytesIn: len(arguments), BytesOut: e.Bytes,
	}
	if l.opts.Content && asked.Code != nil {
		shown := bounded(*asked.Code)
		out.Code, out.CodeCut = &shown, len(shown) < len(*asked.Code)
	}
	return out
}

// short makes a name comparable that must not be told: a session's handle is
// as good as a key to it.
func short(name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:6])
}

// digest is the hash of arguments in their canonical form: names in order, no
// spaces, numbers as they came.
func digest(arguments json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(arguments))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err == nil {
		if canonical, err := json.Marshal(value); err == nil {
			arguments = canonical
		}
	} // else it is no JSON, and the bytes themselves count
	sum := sha256.Sum256(arguments)
	return hex.EncodeToString(sum[:])
}

// bounded cuts code at the most that a line may carry of it.
func bounded(code string) string {
	if len(code) <= maxCode {
		return code
	}
	end := maxCode
	for end > 0 && !utf8.RuneStart(code[end]) {
		end--
	}
	return code[:end]
}
