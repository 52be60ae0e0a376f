package session

import (
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// A Ref names a session for one call. Handle is what the client passed as
// `session`: a handle, which an answer to the same principal has told, or a
// name that the caller gives a session within its scope (the principal, else
// the connection), or "" for the connection's own session. Where there is no
// connection either, a call without a handle gets a session of its own, whose
// handle its answer tells. A handle that is not the principal's is ErrUnknown
// and never creates anything.
type Ref struct {
	Principal  string // the authenticated caller; "": nobody is asked for a name
	Connection string // the protocol's session; "": the protocol has none
	Handle     string
}

// owner is whom a session that this call makes counts for.
func (r Ref) owner() owner {
	if r.Principal != "" {
		return owner{principal: r.Principal}
	}
	return owner{connection: r.Connection}
}

// RunRequest is one cell.
type RunRequest struct {
	Code    string
	Timeout time.Duration // 0: the configured default; above the ceiling: an ArgumentError
	// Progress, when set, is called at most a few times a second while the
	// cell runs, never after Run has returned.
	Progress func(Progress)
}

// Progress tells how a running cell is doing.
type Progress struct {
	Elapsed time.Duration
	Bytes   int64  // output so far
	Last    string // the last line of output, sanitised
}

// WaitRequest asks for the rest of a run that outlasted its answer.
type WaitRequest struct {
	RunID     string        // "": the session's latest run
	Wait      time.Duration // 0: the configured answer_within; below: not at all
	Interrupt bool
	Progress  func(Progress)
}

// Status words of a RunResult.
const (
	StatusDone    = "done"
	StatusRunning = "running"
)

// Kinds of a RunError.
const (
	KindException = "exception"
	KindTimeout   = "timeout"
	KindMemory    = "memory"
	KindDied      = "died"
	KindCancelled = "cancelled"
	KindBusy      = "busy"
	KindSandbox   = "sandbox"
)

// RunResult is the result object of python_run and python_wait; its JSON form
// is fixed by the contract (docs/CONTRACT.md).
type RunResult struct {
	Success       bool      `json:"success"`
	Status        string    `json:"status"`
	RunID         string    `json:"run_id,omitempty"`
	Stdout        string    `json:"stdout"`
	Stderr        string    `json:"stderr"`
	ExitCode      int       `json:"exit_code"`
	ExecutionTime float64   `json:"execution_time"`
	Result        *string   `json:"result"`
	Error         *RunError `json:"error"`
	Images        int       `json:"images"`
	Files         []FileRef `json:"files"`
	Truncated     bool      `json:"truncated"`
	Restarted     bool      `json:"restarted"`
	RestartReason string    `json:"restart_reason,omitempty"`
	Session       string    `json:"session"`

	// Output of earlier cells' threads and children that came between cells.
	LateOutput string `json:"late_output,omitempty"`
	// Paths inside the sandbox of whole texts that were cut, by name (stdout, stderr, result).
	Spool map[string]string `json:"spool,omitempty"`
	// Things a reader should know that no other field says (figures left out, files not listed).
	Notes []string `json:"notes,omitempty"`

	// Begun is what the client passes as session to come back to a session that
	// this call began; "": nothing new, or the connection is enough.
	Begun string `json:"-"`
	// Sizes in bytes of the whole texts in Spool, where they are known.
	SpoolSizes map[string]int64 `json:"-"`
	// Displays are what the cell showed, in order; images among them are counted in Images.
	Displays []Display `json:"-"`
}

// RunError tells why a run failed and what to do next.
type RunError struct {
	Kind      string `json:"kind"`
	Type      string `json:"type,omitempty"`
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"`
	Line      int    `json:"line,omitempty"`
	Hint      string `json:"hint,omitempty"`
}

// A Display is one shown object: an image or a text form.
type Display struct {
	MIME string
	Data []byte
}

// A FileRef is a file of the workspace that a run made or changed.
type FileRef struct {
	Path     string `json:"path"` // relative to the workspace
	Size     int64  `json:"size"`
	MIMEType string `json:"mime_type"`
	URI      string `json:"uri"`
}

// WriteRequest writes one whole file, or appends to it.
type WriteRequest struct {
	Path   string
	Data   []byte
	Append bool
}

// WriteResult is the answer to a WriteRequest.
type WriteResult struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	Session string `json:"session,omitempty"`
	Begun   string `json:"-"` // see RunResult
}

// ReadRequest reads a part of a file.
type ReadRequest struct {
	Path   string
	Offset int64
	Limit  int64 // 0: the default of 256 KiB; at most 16 MiB
}

// ReadResult is the answer to a ReadRequest; Data are raw bytes.
type ReadResult struct {
	Path       string
	Size       int64
	MIMEType   string
	Data       []byte
	NextOffset int64 // 0 when the end was reached
}

// ListRequest lists a directory ("" is the workspace).
type ListRequest struct {
	Path      string
	Recursive bool
}

// ListResult is the answer to a ListRequest.
type ListResult struct {
	Entries   []Entry `json:"entries"`
	Truncated bool    `json:"truncated"`
}

// An Entry is one name in a directory.
type Entry struct {
	Path     string    `json:"path"`
	Type     string    `json:"type"` // file, directory, symlink, other
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// ExposeRequest makes a host file or directory appear in the sandbox.
type ExposeRequest struct {
	HostPath    string
	SandboxPath string // "": /data/NAME
	Mode        sandbox.Mode
	// Roots are folders that the client announced; what is beneath them may be
	// exposed read-only.
	Roots []string
	// Allowed is the person's word on a path outside every root; nil: none yet.
	Allowed *Allowance
}

// Exposure is a host path that a session can see.
type Exposure struct {
	HostPath    string `json:"host_path"`
	SandboxPath string `json:"sandbox_path"`
	Mode        string `json:"mode"`
	Live        bool   `json:"live"`
	Session     string `json:"session,omitempty"` // in an answer to Expose
	Begun       string `json:"-"`                 // see RunResult
}

// ResetRequest asks for a fresh interpreter, or for the session's end.
type ResetRequest struct {
	KeepFiles bool
	Close     bool
	Limits    *Limits // for the session from now on; nil leaves those it has
}

// ResetResult is the answer to Reset.
type ResetResult struct {
	Session   string `json:"session"`
	SandboxID string `json:"sandbox_id"`
	Closed    bool   `json:"closed,omitempty"` // the session has ended
	Begun     string `json:"-"`                // see RunResult
}

// Info describes a session; nothing in it ran user code.
type Info struct {
	Session      string         `json:"session"`
	Name         string         `json:"name,omitempty"`
	Engine       string         `json:"engine"`
	SandboxID    string         `json:"sandbox_id"`
	IsRunning    bool           `json:"is_running"` // a cell runs now
	Environment  string         `json:"environment"`
	ExposedPaths []Exposure     `json:"exposed_paths"`
	Limits       map[string]any `json:"limits"`
	MemoryBytes  int64          `json:"memory_bytes,omitempty"` // 0: not known, as before the sandbox starts
	IdleSeconds  float64        `json:"idle_seconds"`
	Variables    []Variable     `json:"variables"`
	// The caller's other sessions, those idle for longest first.
	Others []Summary `json:"other_sessions,omitempty"`
	// Set when variables could not be listed (a cell runs) or were cut.
	Note string `json:"note,omitempty"`
}

// A Variable of the interpreter's main namespace.
type Variable struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Summary string `json:"summary"`
}

// A Summary is one of a caller's sessions, to choose among them.
type Summary struct {
	Session     string  `json:"session"`
	Name        string  `json:"name,omitempty"`
	AgeSeconds  float64 `json:"age_seconds"`
	IdleSeconds float64 `json:"idle_seconds"`
	IsRunning   bool    `json:"is_running"`
}
