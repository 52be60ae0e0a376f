package environment

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestRunTellsWhatFailed(t *testing.T) {
	needNamespaces(t)
	var lines []string
	_, err := run(t.Context(), step{Name: "try it", Line: func(l string) { lines = append(lines, l) }},
		"/bin/sh", "-c", "echo ignored; printf 'one\\r\\n\\ntwo' >&2; exit 3")
	if _, ok := errors.AsType[*StepError](err); !ok {
		t.Fatalf("got %v, want a StepError", err)
	}
	if got, want := err.Error(), "try it: exit status 3:\none\ntwo"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Join(lines, "|") != "one|two" {
		t.Errorf("lines: %q", lines)
	}
}

// TestRunCancel: nothing a command started outlives it.
func TestRunCancel(t *testing.T) {
	needNamespaces(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reason := errors.New("enough")
	begun := time.Now()
	_, err := run(ctx, step{Name: "wait", Line: func(string) { cancel(reason) }},
		"/bin/sh", "-c", "trap '' TERM INT; sleep 600 & echo started >&2; sleep 600")
	if !errors.Is(err, reason) {
		t.Errorf("got %v, want the cause", err)
	}
	if took := time.Since(begun); took > 60*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestRunBoundsOutput(t *testing.T) {
	needNamespaces(t)
	_, err := run(t.Context(), step{Name: "talk"}, "/bin/sh", "-c", "head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2")
	if err == nil || !strings.Contains(err.Error(), "answered more than") {
		t.Errorf("got %v, want a bound", err)
	}
}

// TestRunIsolates: without the network asked for there is only a loopback.
func TestRunIsolates(t *testing.T) {
	needNamespaces(t)
	out, err := run(t.Context(), step{Name: "look"}, "/bin/sh", "-c", "mount -t proc none /proc && cat /proc/net/dev && ls -d /proc/[0-9]*")
	must(t, err)
	for _, interfaces := range []string{"eth", "ens", "enp"} {
		if strings.Contains(string(out), interfaces) {
			t.Errorf("the host's network is there:\n%s", out)
		}
	}
	if strings.Count(string(out), "/proc/") > 4 {
		t.Errorf("the host's processes are there:\n%s", out)
	}
}

func needNamespaces(t *testing.T) {
	t.Helper()
	if _, err := run(t.Context(), step{Name: "probe"}, "/bin/true"); errors.Is(err, errNoNamespaces) {
		unavailable(t, err.Error())
	}
}

// unavailable skips a test that cannot run here; where CI says that everything
// must be there, that is a failure.
func unavailable(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
