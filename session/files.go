package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/biocypher/biocage-mcp/pyagent"
	"github.com/biocypher/biocage-mcp/sandbox"
)

const (
	chunk       = 1 << 20  // bytes of a file in one frame
	maxAppend   = 16 << 20 // the most that one frame carries
	defaultRead = 256 << 10
	maxRead     = 16 << 20
	maxEntries  = 2000
)

// WriteFile writes or appends to a file of the sandbox. A new file appears
// whole or not at all, and so does what is appended.
func (m *Manager) WriteFile(ctx context.Context, ref Ref, req WriteRequest) (res WriteResult, err error) {
	if err := checkPath(req.Path); err != nil {
		return WriteResult{}, err
	}
	if req.Append && len(req.Data) > maxAppend {
		return WriteResult{}, &ArgumentError{Argument: "content", Message: fmt.Sprintf("At most %d bytes can be appended at once; nothing was written. Append them in parts.", maxAppend)}
	}
	s, err := m.enter(ctx, ref, begins)
	if err != nil {
		return WriteResult{}, err
	}
	defer func() { s.leave(ctx, err) }()
	k, err := s.kernel(ctx)
	if err != nil {
		return WriteResult{}, err
	}
	write := k.create
	if req.Append {
		write = k.add
	}
	reply, err := write(ctx, req.Path, req.Data)
	if err != nil {
		return WriteResult{}, s.fileError(k, req.Path, err)
	}
	return WriteResult{Path: cut(valid([]byte(reply.Path)), 4096), Size: reply.Size, Session: s.handle, Begun: s.begun}, nil
}

// add appends in one frame: the agent undoes one that it cannot write whole,
// which it could not do for a row of them.
func (k *kernel) add(ctx context.Context, name string, data []byte) (pyagent.WriteFileReply, error) {
	return k.conn.WriteFile(ctx, pyagent.WriteFileRequest{Path: name, Mode: "append"}, data)
}

// create sends a new file in chunks; a failure part way drops what was begun.
func (k *kernel) create(ctx context.Context, name string, data []byte) (pyagent.WriteFileReply, error) {
	var reply pyagent.WriteFileReply
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), chunk)]
		data = data[len(part):]
		req := pyagent.WriteFileRequest{Path: name, Mode: "create", More: len(data) > 0}
		if !first {
			req.Mode, req.Offset = "at", reply.Size
		}
		var err error
		if reply, err = k.conn.WriteFile(ctx, req, part); err != nil {
			if !first {
				err = errors.Join(err, k.abort(ctx, name))
			}
			return reply, err
		}
	}
	return reply, nil
}

// abort drops the unfinished file of a create; that it is gone already is fine.
func (k *kernel) abort(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := k.conn.WriteFile(ctx, pyagent.WriteFileRequest{Path: name, Mode: "create", Abort: true}, nil)
	if _, ok := errors.AsType[*pyagent.RequestError](err); ok {
		return nil
	}
	return err
}

// ReadFile reads a part of a file.
func (m *Manager) ReadFile(ctx context.Context, ref Ref, req ReadRequest) (ReadResult, error) {
	if err := checkRead(req); err != nil {
		return ReadResult{}, err
	}
	s, err := m.enter(ctx, ref, reads)
	if err != nil {
		return ReadResult{}, err
	}
	defer s.leave(ctx, nil)
	k, err := s.kernel(ctx)
	if err != nil {
		return ReadResult{}, err
	}
	return s.readFile(ctx, k, req)
}

func checkRead(req ReadRequest) error {
	if err := checkPath(req.Path); err != nil {
		return err
	}
	if req.Offset < 0 {
		return &ArgumentError{Argument: "offset", Message: "offset must not be negative."}
	}
	if req.Limit < 0 || req.Limit > maxRead {
		return &ArgumentError{Argument: "limit", Message: fmt.Sprintf("limit must be between 1 and %d bytes; read the file in parts with offset.", maxRead)}
	}
	return nil
}

func (s *session) readFile(ctx context.Context, k *kernel, req ReadRequest) (ReadResult, error) {
	limit := req.Limit
	if limit == 0 {
		limit = defaultRead
	}
	res, err := k.read(ctx, req.Path, req.Offset, limit)
	if err != nil {
		return ReadResult{}, s.fileError(k, req.Path, err)
	}
	return res, nil
}

func (k *kernel) read(ctx context.Context, name string, offset, limit int64) (ReadResult, error) {
	var res ReadResult
	at := offset
	for {
		part, err := k.conn.ReadFile(ctx, name, at, min(limit, chunk))
		if err != nil {
			return ReadResult{}, err
		}
		res.Path, res.Size = cut(valid([]byte(part.Path)), 4096), part.Size
		got := part.Data[:min(int64(len(part.Data)), limit)]
		res.Data = append(res.Data, got...)
		at += int64(len(got))
		limit -= int64(len(got))
		if limit == 0 || len(got) == 0 || at >= part.Size {
			break
		}
	}
	if at < res.Size {
		res.NextOffset = at
	}
	res.MIMEType = MIMEByName(res.Path)
	if res.MIMEType == "application/octet-stream" && offset == 0 {
		res.MIMEType, _, _ = strings.Cut(http.DetectContentType(res.Data), ";")
	}
	return res, nil
}

// ListFiles lists a directory of the sandbox.
func (m *Manager) ListFiles(ctx context.Context, ref Ref, req ListRequest) (ListResult, error) {
	if err := checkPath(listed(req)); err != nil {
		return ListResult{}, err
	}
	s, err := m.enter(ctx, ref, reads)
	if err != nil {
		return ListResult{}, err
	}
	defer s.leave(ctx, nil)
	k, err := s.kernel(ctx)
	if err != nil {
		return ListResult{}, err
	}
	return s.listFiles(ctx, k, req)
}

// listed is the directory that a request means.
func listed(req ListRequest) string {
	if req.Path == "" {
		return "."
	}
	return req.Path
}

func (s *session) listFiles(ctx context.Context, k *kernel, req ListRequest) (ListResult, error) {
	entries, more, err := k.conn.ListFiles(ctx, listed(req), req.Recursive, maxEntries)
	if err != nil {
		return ListResult{}, s.fileError(k, listed(req), err)
	}
	res := ListResult{Entries: []Entry{}, Truncated: more || len(entries) > maxEntries}
	for _, e := range entries[:min(len(entries), maxEntries)] {
		res.Entries = append(res.Entries, Entry{
			Path: cut(valid([]byte(e.Path)), 4096), Type: cut(e.Type, 20), Size: e.Size,
			Modified: time.Unix(0, e.MTimeNS).UTC(),
		})
	}
	return res, nil
}

// checkPath refuses what no path can be, before anything is started for it.
func checkPath(name string) error {
	bad := func(text string) error { return &ArgumentError{Argument: "path", Message: text} }
	switch {
	case strings.TrimSpace(name) == "":
		return bad("path is empty; give a path relative to the workspace, such as data/in.csv.")
	case strings.ContainsRune(name, 0):
		return bad("path holds a NUL byte; leave it out.")
	case len(name) > 4096:
		return bad("path is longer than 4096 bytes; use a shorter one.")
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 {
			return bad("path holds a name of more than 255 bytes; use a shorter one.")
		}
	}
	return nil
}

// fileError turns the agent's refusal into one sentence with a remedy.
func (s *session) fileError(k *kernel, name string, err error) error {
	var refused *pyagent.RequestError
	if !errors.As(err, &refused) {
		if errors.Is(err, pyagent.ErrLost) {
			k.markGone(err)
			return s.lost(k, true)
		}
		return err
	}
	shown := cut(valid([]byte(name)), 200)
	text := map[string]string{
		"not_found":     "%q is not there; file_list shows what is.",
		"is_directory":  "%q is a directory; name a file in it (file_list shows them).",
		"not_directory": "%q goes through something that is not a directory; file_list shows what is there.",
		"not_regular":   "%q is not a regular file (a pipe, a device or a socket) and is left alone.",
		"exists":        "%q is there already; choose another name.",
		"permission":    "%q cannot be opened by the sandbox's user; work below the workspace (" + sandbox.WorkDir + ") or " + sandbox.TempDir + ", or change its mode (os.chmod in python_run).",
		"read_only":     "%q is on a read-only place; write below the workspace (" + sandbox.WorkDir + ") or " + sandbox.TempDir + ".",
		"no_space":      "There is no room left for %q (sandbox.disk); remove files that are no longer needed.",
		"too_large":     "%q would be larger than a file may be (sandbox.disk).",
		"bad_path":      "%q is not a path that can be used here; write below the workspace (" + sandbox.WorkDir + ").",
	}[refused.Code]
	if text == "" {
		return &SandboxError{Message: fmt.Sprintf("The sandbox could not do that with %q: %s.", shown, cut(valid([]byte(refused.Message)), 300)), Err: err}
	}
	message := fmt.Sprintf(text, shown)
	if refused.Code == "not_found" {
		s.mu.Lock()
		s.reclaim(s.run)
		if s.pendingLoss != "" {
			message += " The sandbox was replaced: " + s.pendingLoss + "."
		}
		s.mu.Unlock()
	}
	missing := refused.Code == "not_found" || refused.Code == "not_directory" || refused.Code == "is_directory"
	return &ArgumentError{Argument: "path", Message: message, Missing: missing}
}

// underWork tells whether a place is in the sandbox's own writable folders.
func underWork(p string) bool {
	return strings.HasPrefix(path.Clean(p), sandbox.WorkDir+"/") || strings.HasPrefix(path.Clean(p), sandbox.TempDir+"/")
}
