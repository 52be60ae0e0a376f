package web

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/internal/remains"
)

// The end of a server with many sandboxes takes no longer than that of one, is
// a success, and leaves nothing.
func TestWebManySandboxesEndInTime(t *testing.T) {
	t.Parallel() // most is waiting
	needEngine(t)
	s := start(t, nil)
	watch := remains.New(remains.Options{PID: s.cmd.Process.Pid, Dirs: remains.RunDirs(0, "", s.temp)})
	count := often(8, 30)
	var wg sync.WaitGroup
	limit := make(chan struct{}, 4)
	for i := range count {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			got := s.try(modern(fmt.Sprint(i+1), "x = 6 * 7; print(x)", ""))
			if got.err != nil || got.status != http.StatusOK || !strings.Contains(got.body, "42") {
				t.Errorf("call %d: %d %.300s %v", i, got.status, got.body, got.err)
			}
		})
	}
	wg.Wait()
	if alive := s.figure("biocage_sessions"); alive != float64(count) {
		t.Errorf("%v sandboxes are alive, want %d", alive, count)
	}
	if err := watch.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s.end(15 * time.Second)
	took := time.Since(begin)
	t.Logf("%d sandboxes ended with the server within %v", count, took)
	left, _, err := watch.Gone(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, thing := range left {
		t.Errorf("left: %s", thing)
	}
}
