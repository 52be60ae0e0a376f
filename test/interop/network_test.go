//go:build linux

package interop

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox/sandboxtest"
)

// networked runs code with `biocage run` and the network on.
func networked(t *testing.T, program, engine, code string) (stdout, stderr string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "run", "--network", "--engine", engine, "--timeout", "2m", "-")
	cmd.Stdin = strings.NewReader(code)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// With the network on, code reaches others, pip installs for the session, and
// hints do not say that there is no network.
func TestNetworkOn(t *testing.T) {
	t.Run("docker", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), "docker", "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}").CombinedOutput()
		gateway := strings.TrimSpace(string(out))
		if err != nil || net.ParseIP(gateway) == nil {
			t.Skipf("the daemon has no bridge: %v %s", err, out)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
		if err != nil {
			t.Skipf("the daemon's bridge is elsewhere: %v", err)
		}
		installs(t, "docker", listener)
	})
	t.Run("gvisor", func(t *testing.T) {
		outside := sandboxtest.NewOutside(t)
		var listener net.Listener
		outside.Do(t, func() {
			var err error
			if listener, err = net.Listen("tcp", net.JoinHostPort(outside.Addr.String(), "0")); err != nil {
				t.Fatal(err)
			}
		})
		installs(t, "gvisor", listener)
	})
}

// installs lets code install from an index behind the listener.
func installs(t *testing.T, engine string, listener net.Listener) {
	t.Helper()
	index := &http.Server{Handler: packageIndex(t), ReadHeaderTimeout: time.Minute}
	go func() { _ = index.Serve(listener) }() // ends with Close, with an error that says so
	t.Cleanup(func() { _ = index.Close() })
	host, _, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	code := fmt.Sprintf(`
%%pip install --index-url http://%s/simple --trusted-host %s biocage_trial
import biocage_trial
print("version", biocage_trial.VERSION, biocage_trial.__file__)
import socket
socket.create_connection((%q, 1))
`, listener.Addr(), host, host)
	stdout, stderr, _ := networked(t, binary(t), engine, code)
	if !strings.Contains(stdout, "version 1.0 /tmp/.packages/") {
		t.Errorf("pip install: %s%s", stdout, stderr)
	}
	if !strings.Contains(stderr, "ConnectionRefusedError") {
		t.Errorf("a port that nobody has: %s", stderr)
	}
}

// packageIndex serves one package as an index does.
func packageIndex(t *testing.T) http.Handler {
	t.Helper()
	const wheel = "biocage_trial-1.0-py3-none-any.whl"
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, text := range map[string]string{
		"biocage_trial.py":                     "VERSION = '1.0'\n",
		"biocage_trial-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: biocage_trial\nVersion: 1.0\n",
		"biocage_trial-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"biocage_trial-1.0.dist-info/RECORD":   "biocage_trial.py,,\nbiocage_trial-1.0.dist-info/METADATA,,\nbiocage_trial-1.0.dist-info/WHEEL,,\nbiocage_trial-1.0.dist-info/RECORD,,\n",
	} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /simple/biocage-trial/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<a href="%s">%s</a>`, wheel, wheel) // a client that has gone is no fault
	})
	mux.HandleFunc("GET /simple/biocage-trial/"+wheel, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(archive.Bytes()) // as above
	})
	return mux
}
