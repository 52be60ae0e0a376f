//go:build linux

package attacks

import (
	"context"
	"strings"
	"syscall"
	"time"
)

// hostAction does to the server what an attack of the class life says in
// words, and then judges what is left.
func (r *round) hostAction(ctx context.Context, a attack) error {
	action := strings.ToLower(a.Must.HostAction)
	end, err := ending(action)
	if err != nil {
		return err
	}
	if err := r.prepare(ctx, a.Must); err != nil {
		return err
	}
	server := r.a
	if strings.Contains(action, "after") {
		if _, err := r.attack(ctx, a); err != nil {
			return err
		}
	} else if _, err := server.BeginTool("python_run", map[string]any{"code": a.Code, "timeout_seconds": max(a.Must.TimeoutS, defaultTimeout)}); err != nil {
		return err
	}
	time.Sleep(time.Second) // the code is at work
	if err := r.watch(ctx); err != nil {
		return err
	}
	if err := end(server); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := server.Wait(limited); err != nil && limited.Err() != nil {
		return err
	}
	r.a = nil
	if err := r.steps(ctx, a.Must.Then); err != nil {
		return err
	}
	if a.Must.Check == "" {
		a.Must.hostCheck = hostCheck{Check: "no_container_within_s", Value: 10.0}
	}
	return r.check(ctx, a.Must.hostCheck)
}

// ending finds what ends the server in an action's words.
func ending(action string) (func(*client) error, error) {
	signal := func(s syscall.Signal) func(*client) error { return func(c *client) error { return c.Signal(s) } }
	for _, known := range []struct {
		words string
		end   func(*client) error
	}{
		{"kill -9", signal(syscall.SIGKILL)},
		{"sigkill", signal(syscall.SIGKILL)},
		{"sigterm", signal(syscall.SIGTERM)},
		{"kill -15", signal(syscall.SIGTERM)},
		{"kill -term", signal(syscall.SIGTERM)},
		{"sigint", signal(syscall.SIGINT)},
		{"kill -2", signal(syscall.SIGINT)},
		{"kill -int", signal(syscall.SIGINT)},
		{"sighup", signal(syscall.SIGHUP)},
		{"kill -hup", signal(syscall.SIGHUP)},
		{"stdin", (*client).CloseInput},
		{"eof", (*client).CloseInput},
		{"client", (*client).CloseInput},
		{"disconnect", (*client).CloseInput},
	} {
		if strings.Contains(action, known.words) {
			return known.end, nil
		}
	}
	return nil, notRun("the host's action %q is not known", action)
}

// doesNotApply tells why an attack cannot be made on a server over stdio; empty
// when it can.
func doesNotApply(a attack) string {
	action := strings.ToLower(a.Must.HostAction)
	if strings.Contains(action, "client") && strings.Contains(action, "max_sessions") {
		return "over stdio a server has one client, so one session"
	}
	return ""
}
