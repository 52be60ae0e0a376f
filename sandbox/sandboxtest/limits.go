//go:build unix

package sandboxtest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// stillWorks proves that the sandbox answers.
func (b *box) stillWorks() {
	b.t.Helper()
	if got := b.out("print(6 * 7)"); got != "42" {
		b.t.Errorf("got %q, want 42", got)
	}
}

// hog takes much more memory than the limit. The parent of the hog survives.
const hog = `
import os, time
keep = []
while True:
    keep.append(b"x" * (8 << 20))
`

func (s *suite) testMemory(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e)
	if !s.Promise.MemoryKillsChild {
		b.ask("eval_request", []byte(hog))
		s.memoryEnded(t, b)
		return
	}
	_, reply := b.run(hog)
	if reply.Number("signal") != 9 {
		t.Errorf("reply to a memory hog is %v, want signal 9", reply.Header)
	}
	b.stillWorks()
	if !s.Promise.OOMCounted {
		return
	}
	eventually(t, 5*time.Second, func() string {
		st, err := b.Stats(context.Background())
		if err != nil || st.OOMKills < 1 {
			return fmt.Sprintf("stats %+v (%v), want at least 1 memory kill", st, err)
		}
		return ""
	})
}

// memoryEnded accepts a sandbox that died of its memory limit, told as such,
// or one whose process was stopped while it lives on.
func (s *suite) memoryEnded(t *testing.T, b *box) {
	t.Helper()
	got := make(chan Frame, 1)
	go func() {
		if f, err := ReadFrame(b.Stream()); err == nil {
			got <- f
		}
		close(got)
	}()
	select {
	case f, ok := <-got:
		if ok {
			if f.Number("exit") == 0 && f.Number("signal") == 0 {
				t.Errorf("a memory hog ended well: %v", f.Header)
			}
			b.stillWorks()
			return
		}
	case <-time.After(2 * patience):
		t.Fatal("a memory hog runs for ever")
	}
	if exit := b.ended(); !exit.OOMKilled || exit.Closed {
		t.Errorf("exit %+v, want OOMKilled", exit)
	}
}

func (s *suite) testProcesses(t *testing.T, e sandbox.Engine) {
	// Enough memory for 64 copies of the probe, which gVisor makes whole.
	b := s.create(t, e, func(spec *sandbox.Spec) { spec.Limits.MemoryBytes = 1 << 30 })
	got := b.out(`
import os, signal, time
made = []
try:
    for i in range(400):
        pid = os.fork()
        if pid == 0:
            time.sleep(300)
            os._exit(0)
        made.append(pid)
    print("unlimited")
except OSError as e:
    print("refused", e.errno, len(made) <= 64)
for pid in made:
    os.kill(pid, signal.SIGKILL)
for pid in made:
    os.waitpid(pid, 0)
`)
	if want := "refused 11 True"; got != want { // EAGAIN
		t.Errorf("got %q, want %q", got, want)
	}
	b.stillWorks()
}

// testProcessors: two processes that never rest share the sandbox's half
// processor. It is told by what the host counts, against the time that passed.
func (s *suite) testProcessors(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e, func(spec *sandbox.Spec) { spec.Limits.CPUs = 0.5 })
	used := func() time.Duration {
		st, err := b.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.CPU
	}
	before, begin := used(), time.Now()
	if before < 0 {
		t.Skip("nothing counts the sandbox's processor time here")
	}
	b.out(`
import os, time
end = time.monotonic() + 4
children = []
for _ in range(2):
    children.append(os.fork())
    while children[-1] == 0:
        if time.monotonic() > end:
            os._exit(0)
for pid in children:
    os.waitpid(pid, 0)
`)
	cpu, wall := used()-before, time.Since(begin)
	share := cpu.Seconds() / wall.Seconds()
	t.Logf("%.2f processors over %s", share, wall.Round(time.Millisecond))
	// Less than half is a busy machine's doing; without the limit it is more
	// than one processor where there are two.
	if wall < 4*time.Second || cpu <= 0 || share > 0.75 {
		t.Errorf("two processes used %.2f processors over %s, want at most about 0.5", share, wall)
	}
}

func (s *suite) testDisk(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e)
	for _, dir := range []string{sandbox.WorkDir, sandbox.TempDir} {
		got := b.out(fmt.Sprintf(`
import errno, os
total = 0
try:
    for i in range(16):
        with open("%[1]s/big%%d" %% i, "wb", buffering=0) as f:
            for _ in range(8):
                total += f.write(b"x" * (1 << 20))
except OSError as e:
    print(errno.errorcode[e.errno], 8 <= total >> 20 <= 17)
for name in os.listdir("%[1]s"):
    os.unlink("%[1]s/" + name)
open("%[1]s/small", "w").write("ok")
print(open("%[1]s/small").read())
`, dir))
		if want := "ENOSPC True\nok"; got != want {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
	if !s.Promise.NoExec {
		return
	}
	got := b.out(`
import shutil, subprocess, sys
for place in "/work", "/tmp":
    shutil.copy(sys.executable, place + "/program")
    try:
        subprocess.run([place + "/program", "-c", "print(1)"])
        print("ran")
    except PermissionError:
        print("refused")
`)
	if want := "refused\nrefused"; got != want {
		t.Errorf("running programs from writable places: %q, want %q", got, want)
	}
}

func (s *suite) testReadOnly(t *testing.T, e sandbox.Engine) {
	b := s.create(t, e)
	got := b.out(`
import os
for path in "/x", "/etc/x", "/usr/x", "/opt/biocage/x", "/opt/biocage/` + probeFile + `", "/data/x", "/app/x", "/mnt/x", "/run/x", "/root/x", "/var/x", "/home/x", "/dev/x", "/proc/sys/kernel/hostname", "/sys/x":
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        print("wrote", path)
    except OSError:
        pass
`)
	if got != "" {
		t.Errorf("places outside the workspace can be written:\n%s", got)
	}
	if s.Promise.ReadOnlyRoot && b.out("import os; print(os.statvfs('/').f_flag & os.ST_RDONLY)") != "1" {
		t.Error("the root file system is not mounted read-only")
	}
	if !s.Promise.NoSetID {
		return
	}
	got = b.out(`
import os
fd = os.open("/work/f", os.O_WRONLY | os.O_CREAT, 0o755)
os.close(fd)
os.chmod("/work/f", 0o700)
tries = {
    "chmod": lambda: os.chmod("/work/f", 0o4755),
    "chmod group": lambda: os.chmod("/work/f", 0o2755),
    "open": lambda: os.open("/work/g", os.O_WRONLY | os.O_CREAT, 0o4755),
    "tmpfile": lambda: os.open("/work", os.O_WRONLY | os.O_TMPFILE, 0o4755),
}
for name, f in tries.items():
    try: print("allowed", name, f())
    except PermissionError: pass
`)
	if got != "" {
		t.Errorf("files can be given set-id bits:\n%s", got)
	}
}

func (s *suite) testNoNetwork(t *testing.T, e sandbox.Engine) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	reached := make(chan string, 16)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(reached)
				return
			}
			reached <- conn.RemoteAddr().String()
			_ = conn.Close()
		}
	}()
	addresses := []string{"127.0.0.1", "169.254.169.254", "172.17.0.1", "1.1.1.1"}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
			addresses = append(addresses, ip.IP.String())
		}
	}
	port := listener.Addr().(*net.TCPAddr).Port
	b := s.create(t, e)
	got := b.out(fmt.Sprintf(`
import socket
for address in %q.split():
    for port in %d, 80, 53:
        link = socket.socket()
        link.settimeout(1)
        try:
            link.connect((address, port))
            print("connected", address, port)
        except OSError:
            pass
        link.close()
try:
    print("resolved", socket.getaddrinfo("example.com", 80))
except OSError:
    pass
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
print("loopback works")
`, strings.Join(addresses, " "), port))
	if want := "loopback works"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	select {
	case from := <-reached:
		t.Errorf("the host's listener was reached from %s", from)
	default:
	}
}
