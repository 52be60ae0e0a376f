package interop

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// An image of the daemon's is an environment too, by name and by its id: code
// runs in it under the same limits as elsewhere.
func TestImageReference(t *testing.T) {
	program := binary(t)
	handImage(t, program)
	const ref = "biocage-reference.test/team/python:1"
	docker(t, "tag", "biocage:latest", ref)
	t.Cleanup(func() { dockerWithin(context.WithoutCancel(t.Context()), t, "rmi", ref) })
	id := strings.TrimSpace(docker(t, "image", "inspect", "--format", "{{.Id}}", ref))
	for name, environment := range map[string]string{"name": ref, "digest": id} {
		t.Run(name, func(t *testing.T) {
			out, stderr, exit := inEnvironment(t, program, "docker", environment, "run", "--json", "-")
			res := parse[struct {
				Stdout string `json:"stdout"`
			}](t, []byte(out))
			if exit != 0 || res.Stdout != "42 /work False\n" {
				t.Errorf("exit %d: %s %s", exit, out, stderr)
			}
			out, stderr, exit = inEnvironment(t, program, "docker", environment, "doctor")
			if exit != 0 || !strings.Contains(out, environment+" is an image") {
				t.Errorf("doctor: exit %d: %s %s", exit, out, stderr)
			}
		})
	}
}

// An image that is not there, and an engine that runs none, are told with what
// to do; a text that can be no image stops the start.
func TestImageReferenceRefused(t *testing.T) {
	program := binary(t)
	tests := []struct {
		name, engine, environment string
		args                      []string
		exit                      int
		parts                     []string
	}{
		{"missing", "docker", "biocage-reference.test/missing:1", []string{"run", "-"}, 1, []string{"is not at the Docker daemon", "docker pull biocage-reference.test/missing:1"}},
		{"missing, doctor", "docker", "biocage-reference.test/missing:1", []string{"doctor"}, 1, []string{"remedy: run: docker pull biocage-reference.test/missing:1"}},
		{"gVisor", "gvisor", "biocage-reference.test/missing:1", []string{"run", "-"}, 1, []string{"which only Docker can run", "set engine to docker", "biocage env list"}},
		{"gVisor, doctor", "gvisor", "biocage-reference.test/missing:1", []string{"doctor"}, 1, []string{"remedy: start Docker and set engine: docker, or set environment"}},
		{"no image", "auto", "../x", []string{"run", "-"}, 2, []string{"BIOCAGE_ENVIRONMENT: environment: must be a name"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, stderr, exit := inEnvironment(t, program, tt.engine, tt.environment, tt.args...)
			for _, part := range tt.parts {
				if !strings.Contains(out+stderr, part) {
					t.Errorf("%q is not said: %s %s", part, out, stderr)
				}
			}
			if exit != tt.exit {
				t.Errorf("exit %d, want %d", exit, tt.exit)
			}
		})
	}
	t.Run("missing, to a model", func(t *testing.T) {
		t.Setenv("BIOCAGE_ENVIRONMENT", "biocage-reference.test/missing:1")
		s := lab{binary: program, engine: "docker"}.start(t)
		raw, err := s.call(t.Context(), "python_run", map[string]any{"code": "1"})
		if err != nil {
			t.Fatal(err)
		}
		if text := string(raw); !strings.Contains(text, "docker pull biocage-reference.test/missing:1") {
			t.Error(text)
		}
	})
}

// inEnvironment runs a command of the program's; its code tells where it is.
func inEnvironment(t *testing.T, program, engine, environment string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--engine", engine}, args...)...)
	cmd.Env = append(os.Environ(), "BIOCAGE_ENVIRONMENT="+environment)
	cmd.Stdin = strings.NewReader("import os\nprint(6 * 7, os.getcwd(), os.getuid() == 0)")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	return dockerWithin(t.Context(), t, args...)
}

func dockerWithin(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
