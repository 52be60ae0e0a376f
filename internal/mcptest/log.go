package mcptest

import "sync"

// maxLog is how much of a server's log is kept, from its start.
const maxLog = 16 << 20

// A record keeps what a process writes; it never blocks the process.
type record struct {
	mu   sync.Mutex
	text []byte
}

func (t *record) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := maxLog - len(t.text); room > 0 {
		t.text = append(t.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (t *record) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
