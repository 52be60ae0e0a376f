package docker

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// An owner names a process across restarts of anything: its number, its start
// time, the boot it lives in and the namespace that its number belongs to.
type owner struct {
	pid   int
	start string // clock ticks since boot; "0" where it cannot be known
	boot  string
	pidns string
}

// String is the form in a label.
func (o owner) String() string {
	return fmt.Sprintf("%d:%s:%s:%s", o.pid, o.start, o.boot, o.pidns)
}

// dirName is the form in the name of a directory, short because a socket's
// path is limited to about a hundred bytes.
func (o owner) dirName() string {
	return fmt.Sprintf("biocage-%d-%s-%.8s-%s", o.pid, o.start, o.boot, o.pidns)
}

func parseOwner(label string) (owner, error) {
	part := strings.Split(label, ":")
	if len(part) != 4 {
		return owner{}, fmt.Errorf("owner label has %d parts, not 4", len(part))
	}
	pid, err := strconv.Atoi(part[0])
	if err != nil || pid <= 0 {
		return owner{}, errors.New("owner label has no process number")
	}
	return owner{pid: pid, start: part[1], boot: part[2], pidns: part[3]}, nil
}

func parseOwnerDir(name string) (owner, error) {
	rest, ok := strings.CutPrefix(name, "biocage-")
	if !ok {
		return owner{}, errors.New("not a directory of ours")
	}
	return parseOwner(strings.ReplaceAll(rest, "-", ":"))
}

// self is this process. Without /proc it is the process number alone.
func self() owner {
	o := owner{pid: os.Getpid(), start: "0", boot: "0", pidns: "0"}
	if start, err := startTime(o.pid); err == nil {
		o.start = start
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		o.boot = strings.ReplaceAll(strings.TrimSpace(string(boot)), "-", "")
	}
	if link, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		o.pidns = strings.Trim(strings.TrimPrefix(link, "pid:"), "[]")
	}
	return o
}

// verdict is what one process can know of another.
type verdict int

const (
	alive   verdict = iota
	dead            // it, or the boot it lived in, is gone
	unknown         // it lives where we cannot look
)

// judge tells whether o still runs, seen from me. local says that the daemon
// runs on this kernel, so that another boot can only be an earlier one.
func (o owner) judge(me owner, local bool) verdict {
	switch {
	case !strings.HasPrefix(me.boot, o.boot):
		if local {
			return dead
		}
		return unknown
	case o.pidns != me.pidns:
		return unknown
	}
	start, err := startTime(o.pid)
	switch {
	case err == nil && start == o.start:
		return alive
	case err == nil, errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH):
		if o.start != "0" {
			return dead
		}
	}
	return unknown
}

// startTime is field 22 of /proc/PID/stat. The name in field 2 may hold any
// character, so the fields are counted from its closing parenthesis. A zombie
// has ended: it counts as not there.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	text := string(stat)
	field := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(field) < 20 {
		return "", errors.New("unreadable process status")
	}
	if field[0] == "Z" || field[0] == "X" {
		return "", os.ErrNotExist
	}
	return field[19], nil
}
