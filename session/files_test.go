package session

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// What is appended is there whole or not at all, however much it is.
func TestAppendIsWholeOrNothing(t *testing.T) {
	e := &fakeEngine{}
	m := newTestManager(t, e, nil)
	ref := Ref{Connection: "c"}
	if _, err := m.WriteFile(t.Context(), ref, WriteRequest{Path: "log", Data: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	agent := e.last().agent
	agent.mu.Lock()
	agent.room = 4 << 20
	agent.mu.Unlock()

	size := func() int {
		agent.mu.Lock()
		defer agent.mu.Unlock()
		return len(agent.files["log"])
	}
	_, err := m.WriteFile(t.Context(), ref, WriteRequest{Path: "log", Data: make([]byte, 5<<20), Append: true})
	var refused *ArgumentError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "no room left") || size() != 3 {
		t.Errorf("more than there is room for: %v, the file has %d bytes", err, size())
	}
	res, err := m.WriteFile(t.Context(), ref, WriteRequest{Path: "log", Data: make([]byte, 3<<20), Append: true})
	if err != nil || res.Size != 3<<20+3 || size() != 3<<20+3 {
		t.Errorf("what fits: %+v, %v", res, err)
	}
	_, err = m.WriteFile(t.Context(), ref, WriteRequest{Path: "log", Data: make([]byte, maxAppend+1), Append: true})
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "nothing was written") || size() != 3<<20+3 {
		t.Errorf("more than a frame carries: %v", err)
	}
}

// A file that replaces another is the old one until it is whole.
func TestLargeFilesTravelInParts(t *testing.T) {
	e := &fakeEngine{}
	m := newTestManager(t, e, nil)
	ref := Ref{Connection: "c"}
	data := bytes.Repeat([]byte("0123456789"), 300_000)
	if res, err := m.WriteFile(t.Context(), ref, WriteRequest{Path: "big", Data: data}); err != nil || res.Size != int64(len(data)) {
		t.Fatalf("%+v, %v", res, err)
	}
	res, err := m.ReadFile(t.Context(), ref, ReadRequest{Path: "big", Offset: 5, Limit: int64(len(data))})
	if err != nil || !bytes.Equal(res.Data, data[5:]) {
		t.Errorf("%d bytes came back, %v", len(res.Data), err)
	}
}
