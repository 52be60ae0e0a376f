package interop

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The image with the program, with the rights that docs/hosts.md names, is a
// gVisor engine. Its base, which a registry has, is stood in for by the
// environment's image; the program needs nothing of either.
func TestProgramImage(t *testing.T) {
	program := binary(t)
	if os.Geteuid() != 0 {
		missing(t, "the container shares root's environments; run as root")
	}
	base := handImage(t, program)
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "hosts.md"))
	if err != nil {
		t.Fatal(err)
	}
	rights := regexp.MustCompile(`(?m)^rights='(.+)'$`).FindSubmatch(page)
	if rights == nil {
		t.Fatal("docs/hosts.md does not name the rights")
	}
	const image = "biocage/program:test"
	buildProgramImage(t, program, base, image)
	flags := append(strings.Fields(string(rights[1])), "-v", "/var/lib/biocage:/var/lib/biocage")
	out, stderr, code := byHand(t, image, flags, []string{"--engine", "gvisor", "run", "-"}, "print(6 * 7)")
	if code != 0 || string(out) != "42\n" {
		t.Errorf("exit code %d, %q, %q", code, out, stderr)
	}
	out, stderr, code = byHand(t, image, nil, []string{"version"}, "")
	if code != 0 || !strings.HasPrefix(string(out), "biocage ") {
		t.Errorf("version without rights: exit code %d, %q, %q", code, out, stderr)
	}
}

// buildProgramImage lays the files out as goreleaser does it.
func buildProgramImage(t *testing.T, program, base, image string) {
	t.Helper()
	dir, platform := t.TempDir(), "linux/"+runtime.GOARCH
	for from, to := range map[string]string{
		program:                           filepath.Join(platform, "biocage"),
		filepath.Join(root(t), "LICENSE"): "LICENSE",
		filepath.Join(root(t), "packaging", "image", "Dockerfile"): "Dockerfile",
	} {
		copyFile(t, from, filepath.Join(dir, to))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "docker", "build", "--build-arg", "BASE="+base, "--build-arg", "TARGETPLATFORM="+platform, "-t", image, dir)
	build.Env = append(os.Environ(), "DOCKER_BUILDKIT=0") // buildx need not be there
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("docker build: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(ctx), "docker", "rmi", "--force", image).CombinedOutput(); err != nil {
			t.Errorf("docker rmi: %v\n%s", err, out)
		}
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
