package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/biocypher/biocage-mcp/sandbox"
)

// hostTree builds a folder that may be exposed beside one that may not.
func hostTree(t *testing.T) (allowed, outside string) {
	t.Helper()
	top := t.TempDir()
	allowed, outside = filepath.Join(top, "data"), filepath.Join(top, "data-private")
	for _, f := range []string{
		"data/a.csv", "data/sub/b.csv", "data/name with space é.csv", "data/.env", "data/.env.example", "data/keys/id_rsa", "data/keys/x.pem",
		"data/.ssh/config", "data/proj/.git/hooks/pre-commit", "data/proj/x.py", "data/secretdir/deep/.env", "data/linked.csv",
		"data/sub/credentials.json", "data-private/p.csv",
	} {
		name := filepath.Join(top, f)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"data/out": outside, "data/out.csv": filepath.Join(outside, "p.csv"), "data/in.csv": "a.csv", "data/up.csv": "../data-private/p.csv",
		"data/innocent.txt": ".env", "data/loop": "loop", "data/dangling": "nothing", "data/subdirlink": "sub",
	} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(outside, "p.csv"), filepath.Join(allowed, "hard.csv")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(allowed, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	return allowed, outside
}

func TestOpenHost(t *testing.T) {
	allowed, outside := hostTree(t)
	roots := []HostRoot{{Path: allowed}, {Path: filepath.Join(allowed, "sub"), Mode: sandbox.ReadWrite}}
	const ok = ""
	tests := []struct {
		path string
		mode sandbox.Mode
		want string // part of the refusal; ok: opened
	}{
		{path: allowed + "/a.csv", want: ok},
		{path: allowed + "/name with space é.csv", want: ok},
		{path: allowed + "/sub", want: "credentials.json"},
		{path: allowed + "/sub/b.csv", want: ok},
		{path: allowed + "/sub/b.csv", mode: sandbox.ReadWrite, want: ok},
		{path: allowed + "/sub/../a.csv", want: ok},
		{path: allowed + "//a.csv", want: ok},
		{path: allowed + "/in.csv", want: ok},
		{path: allowed + "/.env.example", want: ok},
		{path: allowed + "/proj", want: ok},
		{path: allowed + "/proj/x.py", want: ok},
		{path: allowed + "/a.csv", mode: sandbox.ReadWrite, want: "read-only"},
		{path: allowed, want: "never exposed"},
		{path: allowed + "/.env", want: "never exposed"},
		{path: allowed + "/innocent.txt", want: "never exposed"},
		{path: allowed + "/keys/id_rsa", want: "never exposed"},
		{path: allowed + "/keys/x.pem", want: "never exposed"},
		{path: allowed + "/keys", want: "never exposed"},
		{path: allowed + "/.ssh", want: "never exposed"},
		{path: allowed + "/.ssh/config", want: "never exposed"},
		{path: allowed + "/secretdir", want: "never exposed"},
		{path: allowed + "/secretdir/deep", want: "never exposed"},
		{path: allowed + "/out", want: "leads out"},
		{path: allowed + "/out/p.csv", want: "leads out"},
		{path: allowed + "/out.csv", want: "leads out"},
		{path: allowed + "/up.csv", want: "leads out"},
		{path: allowed + "/hard.csv", want: "hard links"},
		{path: allowed + "/pipe", want: "pipe"},
		{path: allowed + "/missing.csv", want: "does not exist"},
		{path: allowed + "/dangling", want: "does not exist"},
		{path: allowed + "/loop", want: "cannot be opened"},
		{path: allowed + "/a.csv/x", want: "cannot be opened"},
		{path: outside + "/p.csv", want: "outside"},
		{path: outside, want: "outside"},
		{path: filepath.Dir(allowed), want: "outside"},
		{path: allowed + "/../data-private/p.csv", want: "outside"},
		{path: allowed + "-private/p.csv", want: "outside"},
		{path: "/etc/shadow", want: "outside"},
		{path: "/proc/self/environ", want: "outside"},
		{path: "/", want: "outside"},
		{path: "a.csv", want: "absolute"},
		{path: "", want: "absolute"},
		{path: "~/a.csv", want: "absolute"},
		{path: allowed + "/a.csv\x00.txt", want: "absolute"},
		{path: "file://" + allowed + "/a.csv", want: "absolute"},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.mode.String(), func(t *testing.T) {
			h, err := openHost(roots, tt.path, tt.mode)
			if err == nil {
				defer h.file.Close()
			}
			var refused *ArgumentError
			switch {
			case tt.want == ok && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != ok && !errors.As(err, &refused):
				t.Errorf("got %v, want an ArgumentError with %q", err, tt.want)
			case tt.want != ok && !strings.Contains(refused.Message, tt.want):
				t.Errorf("got %q, want it to say %q", refused.Message, tt.want)
			}
		})
	}
}

func TestFootholdsAreNeverWritable(t *testing.T) {
	allowed, _ := hostTree(t)
	roots := []HostRoot{{Path: allowed, Mode: sandbox.ReadWrite}}
	for _, p := range []string{"/proj", "/proj/.git", "/proj/.git/hooks"} {
		if h, err := openHost(roots, allowed+p, sandbox.ReadWrite); err == nil {
			h.file.Close()
			t.Errorf("%s was opened read-write", p)
		}
	}
}

func TestNoRootsMeansNothing(t *testing.T) {
	allowed, _ := hostTree(t)
	if _, err := openHost(nil, allowed+"/a.csv", sandbox.ReadOnly); err == nil || !strings.Contains(err.Error(), "expose.roots") {
		t.Errorf("got %v, want a refusal that names expose.roots", err)
	}
}

// While a name is swapped between a good file and a link that leads out, what
// is opened is always the good file.
func TestOpenHostSwapRace(t *testing.T) {
	allowed, outside := hostTree(t)
	roots := []HostRoot{{Path: allowed}}
	name := filepath.Join(allowed, "swap.csv")
	good, bad := filepath.Join(allowed, "good"), filepath.Join(allowed, "bad")
	if err := os.WriteFile(good, []byte("good"), 0o644); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%2 == 0 {
				os.Symlink(filepath.Join(outside, "p.csv"), bad)
				os.Rename(bad, name)
			} else {
				os.WriteFile(bad, []byte("good"), 0o644)
				os.Rename(bad, name)
			}
		}
	})
	opened := 0
	buf := make([]byte, 16)
	// On a busy machine the name may be swapped within every single attempt.
	give := time.Now().Add(time.Minute)
	for i := 0; i < 10_000 || opened == 0 && time.Now().Before(give); i++ {
		h, err := openHost(roots, name, sandbox.ReadOnly)
		if err != nil {
			continue
		}
		n, err := h.file.Read(buf)
		if err == nil && string(buf[:n]) != "good" {
			t.Errorf("read %q through a link that leads out", buf[:n])
		}
		opened++
		h.file.Close()
	}
	close(stop)
	wg.Wait()
	if opened == 0 {
		t.Error("the good file was never opened, so nothing was tested")
	}
}

// The place of an exposure is checked also when the host path gives its name.
func TestExposeTarget(t *testing.T) {
	long := strings.Repeat("n", 256)
	tests := []struct{ host, sandbox, want, refused string }{
		{host: "/srv/a.csv", want: "/data/a.csv"},
		{host: "/srv/a b/", want: "/data/a b"},
		{host: "/srv/a", sandbox: "x/y", want: "/work/x/y"},
		{host: "/srv/a\nb", refused: "holds a control character"},
		{host: "/", refused: "is not a clean path"},
		{host: "/srv/a", sandbox: "/data/" + long, refused: "at most 255 bytes a name"},
		{host: "/srv/a", sandbox: "/data" + strings.Repeat("/dir", 1100), refused: "4095 in all"},
		{host: "/srv/a", sandbox: "/etc/a", refused: "beneath /data"},
	}
	for _, tt := range tests {
		got, err := exposeTarget(ExposeRequest{HostPath: tt.host, SandboxPath: tt.sandbox})
		var refused *ArgumentError
		switch {
		case tt.refused == "" && (err != nil || got != tt.want):
			t.Errorf("%.40q at %.40q: %q, %v; want %q", tt.host, tt.sandbox, got, err, tt.want)
		case tt.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), tt.refused)):
			t.Errorf("%.40q at %.40q: %q, %v; want a refusal with %q", tt.host, tt.sandbox, got, err, tt.refused)
		}
	}
}
