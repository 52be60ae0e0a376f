package environment

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func agentDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "agent-1")
	must(t, os.MkdirAll(filepath.Join(dir, "biocage_agent"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "biocage_agent_main.py"), []byte("main"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "biocage_agent", "x.py"), []byte("x"), 0o644))
	return dir
}

func TestPublish(t *testing.T) {
	for name, ref := range map[string]string{DefaultName: "biocage:latest", "mine": "biocage:mine"} {
		t.Run(name, func(t *testing.T) {
			docker := &fakeDaemon{}
			s := openStore(t, docker)
			e := place(t, s, name, "a")
			agent := agentDir(t)
			must(t, s.Publish(t.Context(), e, agent))
			if docker.images[ref] != ref+" of id" {
				t.Errorf("images: %q", docker.images)
			}
			for _, want := range []string{
				`ENTRYPOINT ["` + e.Python + `","-I","/opt/biocage/biocage_agent_main.py","--once"]`,
				"USER 65534:65534", "WORKDIR /work",
			} {
				if !slices.Contains(docker.changes, want) {
					t.Errorf("the image's settings %q lack %s", docker.changes, want)
				}
			}
			got := map[string]int64{}
			for r := tar.NewReader(strings.NewReader(docker.content)); ; {
				header, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				must(t, err)
				got[header.Name] = header.Mode
			}
			want := map[string]int64{
				"work/": 0o1777, "opt/": 0o755, "opt/biocage/": 0o755, "opt/biocage/biocage_agent/": 0o755,
				"opt/biocage/biocage_agent_main.py": 0o644, "opt/biocage/biocage_agent/x.py": 0o644,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("laid over the environment (-want +got):\n%s", diff)
			}
			must(t, s.Publish(t.Context(), e, agent))
			if diff := cmp.Diff([]string{ref + " of id"}, docker.removed); diff != "" {
				t.Errorf("the earlier image must go (-want +got):\n%s", diff)
			}
			docker.removed = nil
			must(t, s.Remove(t.Context(), name))
			if !slices.Contains(docker.removed, ref) || !slices.Contains(docker.removed, e.Image) {
				t.Errorf("removed with the environment: %q", docker.removed)
			}
		})
	}
}

func TestPublishFailures(t *testing.T) {
	s := openStore(t, nil)
	e := place(t, s, DefaultName, "a")
	if err := s.Publish(t.Context(), e, agentDir(t)); !errors.Is(err, ErrNoDocker) {
		t.Errorf("got %v, want ErrNoDocker", err)
	}
	docker := &fakeDaemon{}
	s.docker = docker
	if err := s.Publish(t.Context(), e, filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("an image without the agent was made")
	}
	docker.refusal = errors.New("no space left")
	if err := s.Publish(t.Context(), e, agentDir(t)); !errors.Is(err, docker.refusal) {
		t.Errorf("got %v, want the daemon's word", err)
	}
}
