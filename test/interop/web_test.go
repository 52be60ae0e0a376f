package interop

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A web is a server of ours that listens, for all clients of a test.
type web struct {
	url   string
	token string
}

// listen starts `serve --transport http`; it must end well after the test.
func (l lab) listen(t *testing.T) *web {
	t.Helper()
	w := &web{url: "http://" + freeAddress(t), token: "a-token-that-only-these-tests-know"}
	var log lockedBuffer
	cmd := exec.Command(l.binary, "serve", "--transport", "http", "--listen", w.url[len("http://"):], "--config", l.config(t, settings{warm: 1}))
	cmd.Env = append(os.Environ(), "BIOCAGE_SERVER_TOKENS="+w.token)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("the server is gone: %v", err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server did not end well: %v", err)
			}
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill() // the test has failed
			t.Error("the server did not end with SIGTERM")
		}
		if t.Failed() {
			t.Logf("the server's log ends:\n%s", tail(log.String(), 60))
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if w.answers() {
			return w
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not listen:\n%s", log.String())
		}
	}
}

// answers tells whether the server is there and well.
func (w *web) answers() bool {
	client := &http.Client{Transport: bearer(w.token)}
	answer, err := client.Get(w.url + "/healthz")
	if err != nil {
		return false
	}
	_ = answer.Body.Close() // nothing was read
	return answer.StatusCode == http.StatusOK
}

// freeAddress is a place of this machine where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody connected
	return l.Addr().String()
}
