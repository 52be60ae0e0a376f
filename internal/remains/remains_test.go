package remains

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	rest := " S 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"
	tests := map[string]struct {
		stat string
		want process
	}{
		"plain":    {"9 (sleep)" + rest, process{identity: identity{9, "4711"}, parent: 7, command: "sleep"}},
		"brackets": {"9 (a) b (c)" + rest, process{identity: identity{9, "4711"}, parent: 7, command: "a) b (c"}},
		"zombie":   {"9 (z)" + strings.Replace(rest, "S", "Z", 1), process{identity: identity{9, "4711"}, parent: 7, ended: true, command: "z"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(9, tc.stat)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(process{}, identity{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{"", "9 sleep S 7", "9 (sleep) S 7", "9 (sleep) S x" + strings.Repeat(" 1", 30)} {
		if _, err := parseStat(9, bad); err == nil {
			t.Errorf("parseStat(%q) succeeded", bad)
		}
	}
}

func TestFamily(t *testing.T) {
	one := func(pid, parent int, command string) process {
		return process{identity: identity{pid: pid}, parent: parent, command: command}
	}
	all := []process{
		one(1, 0, "init"), one(10, 1, "server"), one(11, 10, "sentry"), one(12, 11, "child"),
		one(20, 1, "shim -id abc"), one(21, 20, "python"), one(22, 21, "grandchild"),
		one(30, 1, "stranger"), one(31, 30, "its child"),
	}
	var got []int
	for _, p := range family(all, 10, map[string]bool{"abc": true}) {
		got = append(got, p.pid)
	}
	if diff := cmp.Diff([]int{20, 11, 21, 12, 22}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOwnedBy(t *testing.T) {
	listing := "aaa 12:9:boot:ns\nbbb 123:9:boot:ns\nccc \nddd 12:7:boot:ns\n"
	if diff := cmp.Diff([]string{"aaa", "ddd"}, ownedBy(listing, 12)); diff != "" {
		t.Error(diff)
	}
}

func TestPickMounts(t *testing.T) {
	table := "22 1 0:1 / /proc rw\n23 1 0:2 / /run/x/box-1 rw\n24 1 0:3 /box-1 /box-1 rw\n"
	got := pickMounts(table, []string{"box-1"})
	want := []string{"mount 23 1 0:2 / /run/x/box-1 rw", "mount 24 1 0:3 /box-1 /box-1 rw"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOwnedEntries(t *testing.T) {
	dir := t.TempDir()
	for name, owner := range map[string]string{
		"biocage-12-9-boot": "", "biocage-123-9-boot": "", "biocage-12-8-boot": "", "i-a": `{"pid":12,"start":9}`,
		"i-b": `{"pid":123,"start":9}`, "i-c": "12", "i-d": `{"pid":12,"start":8}`,
	} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "owner"), []byte(owner), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ownedEntries(dir, identity{12, "9"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "biocage-12-9-boot"), filepath.Join(dir, "i-a")}, got); diff != "" {
		t.Error(diff)
	}
}

// A server dies and its child lives on: the watch must tell, until it is gone.
func TestWatchSeesOrphan(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the watch reads /proc")
	}
	dir := t.TempDir()
	server := exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 & echo $!; wait")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.FindProcess(orphan)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Kill() }() // already gone when the test succeeds

	watch := New(Options{PID: server.Process.Pid, Dirs: []string{dir, filepath.Join(dir, "never made")}})
	if _, err := watch.Left(t.Context()); err == nil {
		t.Error("Left succeeded without a look")
	}
	if err := watch.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // killed, as asked
	left, _, err := watch.Gone(t.Context(), 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"process " + strconv.Itoa(orphan) + " (sleep 600)"}, left); diff != "" {
		t.Error(diff)
	}

	mine := filepath.Join(dir, "i-1")
	for path, owner := range map[string]identity{
		mine: watch.server, filepath.Join(dir, "i-2"): {watch.server.pid, "1"}, filepath.Join(dir, "i-3"): {1, watch.server.start},
	} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "owner"), fmt.Appendf(nil, `{"pid":%d,"start":%s}`, owner.pid, owner.start), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Kill(); err != nil {
		t.Fatal(err)
	}
	left, _, err = watch.Gone(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"directory " + mine}, left); diff != "" {
		t.Error(diff)
	}
	if err := os.RemoveAll(mine); err != nil {
		t.Fatal(err)
	}
	if left, _, err = watch.Gone(t.Context(), 5*time.Second); err != nil || len(left) > 0 {
		t.Errorf("left %q, error %v", left, err)
	}
}
