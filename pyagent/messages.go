package pyagent

import "fmt"

// ProtocolVersion is the version of PROTOCOL.md that this package speaks.
const ProtocolVersion = 1

// KernelInfo is the supervisor's first frame.
type KernelInfo struct {
	Protocol int    `json:"protocol"`
	Agent    string `json:"agent"`
	Python   string `json:"python"`
	PID      int    `json:"pid"`
}

// StartRequest configures the supervisor and makes the first worker.
type StartRequest struct {
	Preload     []string `json:"preload"`
	MemoryBytes int64    `json:"memory_bytes"`
	LeaseMS     int64    `json:"lease_ms"`
	Workspace   string   `json:"workspace,omitempty"`
	Temp        string   `json:"temp,omitempty"`
	SpoolBytes  int64    `json:"spool_bytes"`
	Packages    []string `json:"packages,omitempty"`
	Network     bool     `json:"network,omitempty"`
	Wipe        []string `json:"wipe,omitempty"` // emptied by each reset, whatever files it keeps
}

// StartReply tells that a worker is ready.
type StartReply struct {
	Failed    []string `json:"failed"`
	WorkerPID int      `json:"worker_pid"`
}

// PingReply is how the supervisor is doing.
type PingReply struct {
	Busy      int64 `json:"busy"`       // id of the running execution, or 0
	WorkerPID int   `json:"worker_pid"` // 0 while there is no worker
}

// ExecuteRequest is one cell.
type ExecuteRequest struct {
	Code      string
	MaxOutput int64 // bytes kept of each text, half from its head and half from its tail
	Count     int64 // the cell's number, shown in tracebacks as <cell N>
}

// Statuses of an ExecuteReply.
const (
	StatusOK    = "ok"
	StatusError = "error"
	StatusDied  = "died"
)

// ExecuteReply is how a cell ended.
type ExecuteReply struct {
	Status         string                `json:"status"`
	Streams        map[string]StreamTail `json:"streams"`
	Truncated      []string              `json:"truncated"`
	Spool          map[string]string     `json:"spool"`
	Error          *CellError            `json:"error"`
	Death          *Death                `json:"death"`
	Interrupted    bool                  `json:"interrupted"`
	Restarted      bool                  `json:"restarted"`
	DisplayDropped int                   `json:"display_dropped"`
	Files          []File                `json:"files"`
	FilesMore      int                   `json:"files_more"`
	CPUMS          float64               `json:"cpu_ms"`

	// Parts by name: result, traceback, message, stdout_tail, stderr_tail,
	// late_stdout, late_stderr. A name that is absent was not sent.
	Parts map[string][]byte `json:"-"`
}

// StreamTail says how long a stream was and where its tail part begins.
type StreamTail struct {
	Total    int64 `json:"total"`
	TailFrom int64 `json:"tail_from"`
}

// CellError is the exception that ended a cell.
type CellError struct {
	Name     string `json:"ename"`
	Line     int    `json:"line"`
	Hint     string `json:"hint"`
	ExitCode *int   `json:"exit_code"`
}

// Causes of a Death.
const (
	CauseSelf      = "self"
	CauseInterrupt = "interrupt"
	CauseProtocol  = "protocol"
	CauseReset     = "reset"
)

// Death is how a worker ended.
type Death struct {
	Signal   int    `json:"signal"`
	ExitCode int    `json:"exit_code"`
	OOM      bool   `json:"oom"`
	Cause    string `json:"cause"`
}

// File is a regular file beneath the workspace.
type File struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	MTimeNS int64  `json:"mtime_ns"`
}

// A Sink receives what a running cell sends. Its methods are called by the
// connection's reader one at a time, must not block, and must copy what they
// keep. None is called after the execution is done.
type Sink interface {
	Stream(name string, data []byte)
	Progress(bytes int64, last string)
	Display(mime string, index int, last bool, data []byte)
}

// Variable is one name of the worker's main namespace.
type Variable struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Summary string `json:"summary"`
}

// InspectReply lists variables.
type InspectReply struct {
	Variables []Variable `json:"variables"`
	More      int        `json:"more"`
	Cwd       string     `json:"cwd"`
}

// WriteFileRequest writes one chunk of a file.
type WriteFileRequest struct {
	Path   string `json:"path"`
	Mode   string `json:"mode"` // create, append, at
	Offset int64  `json:"offset,omitempty"`
	More   bool   `json:"more,omitempty"`
	Abort  bool   `json:"abort,omitempty"`
}

// WriteFileReply is the file as it is after the chunk.
type WriteFileReply struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// ReadFileReply is a part of a file.
type ReadFileReply struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	MTimeNS int64  `json:"mtime_ns"`
	Mode    uint32 `json:"mode"`
	Data    []byte `json:"-"`
}

// Entry is one name of a directory listing.
type Entry struct {
	Path    string `json:"path"`
	Type    string `json:"type"`
	Size    int64  `json:"size"`
	MTimeNS int64  `json:"mtime_ns"`
}

// A RequestError is the supervisor's refusal of one request. Code is one of
// PROTOCOL.md's words; Message is one sentence, from the sandbox's side.
type RequestError struct {
	Code    string
	Message string
}

// Error implements error.
func (e *RequestError) Error() string { return fmt.Sprintf("agent: %s (%s)", e.Message, e.Code) }
