//go:build unix

package sandboxtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// A startRewriter passes frames on and, in the host's start_request, names the
// directories that the agent may use. After that it is out of the way.
type startRewriter struct {
	to              io.Writer
	workspace, temp string

	mu      sync.Mutex
	done    bool         // guarded by mu; the start_request has passed
	pending bytes.Buffer // guarded by mu; frames before it, until they are whole
}

// Write implements io.Writer.
func (s *startRewriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return s.to.Write(p)
	}
	s.pending.Write(p)
	for !s.done {
		frame, ok := s.next()
		if !ok {
			return len(p), nil
		}
		if err := s.forward(frame); err != nil {
			return 0, err
		}
	}
	if _, err := s.pending.WriteTo(s.to); err != nil {
		return 0, err
	}
	return len(p), nil
}

// next takes one whole frame from what is pending.
func (s *startRewriter) next() (Frame, bool) {
	data := s.pending.Bytes()
	if len(data) < 8 {
		return Frame{}, false
	}
	size := 8 + int(binary.BigEndian.Uint32(data)) + int(binary.BigEndian.Uint32(data[4:]))
	if len(data) < size {
		return Frame{}, false
	}
	h := 8 + int(binary.BigEndian.Uint32(data))
	f := Frame{Body: bytes.Clone(data[h:size])}
	if err := json.Unmarshal(data[8:h], &f.Header); err != nil {
		f.Header = map[string]any{"type": "unreadable"}
	}
	s.pending.Next(size)
	return f, true
}

func (s *startRewriter) forward(f Frame) error {
	if f.Header["type"] == "start_request" {
		f.Header["workspace"], f.Header["temp"] = s.workspace, s.temp
		s.done = true
	}
	if err := WriteFrame(s.to, f.Header, f.Body); err != nil {
		return fmt.Errorf("process: forward frame: %w", err)
	}
	return nil
}

// processTree is pid and everything below it.
func processTree(pid int) []int {
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []int{pid}
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		status, err := processStatus(child)
		if err != nil {
			continue
		}
		if parent, err := strconv.Atoi(status["PPid"]); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

func residentBytes(pid int) int64 {
	status, err := processStatus(pid)
	if err != nil {
		return 0
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(status["VmRSS"], " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
