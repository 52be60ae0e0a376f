package environment

import (
	"errors"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestParseProject(t *testing.T) {
	got, err := parseProject("pyproject.toml", []byte(`
[build-system]
requires = ["hatchling"]

[project]
name = "mine"
requires-python = ">=3.11"
dependencies = ["numpy>=2", "pandas[excel]~=3.0 ; python_version > '3'", "six"]

[tool.biocage]
preload = ["numpy", "matplotlib.pyplot"]
apt = ["libgomp1", "fonts-noto-core"]

[tool.ruff]
line-length = 100
`))
	if err != nil {
		t.Fatal(err)
	}
	want := project{
		RequiresPython: ">=3.11",
		Dependencies:   []string{"numpy>=2", "pandas[excel]~=3.0 ; python_version > '3'", "six"},
		Preload:        []string{"numpy", "matplotlib.pyplot"},
		Apt:            []string{"libgomp1", "fonts-noto-core"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseProjectDefaults(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		apt  []string
	}{
		"no word on Debian packages": {"[project]\ndependencies = []\n", defaultFonts()},
		"none wanted":                {"[project]\ndependencies = []\n[tool.biocage]\napt = []\n", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseProject("p", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.apt, got.Apt); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestParseProjectFaults: every fault of a file is told, with its line.
func TestParseProjectFaults(t *testing.T) {
	_, err := parseProject("my.toml", []byte(`[project]
requires-python = 3
dynamic = ["dependencies"]
dependencies = ["numpy", "-r /etc/passwd", "x @ https://example.org/x.whl", "a\nb"]

[tool.biocage]
preload = ["numpy", "os; import evil"]
apt = ["Bad Name"]
prelaod = []
`))
	if !errors.Is(err, ErrProject) {
		t.Fatalf("got %v, want ErrProject", err)
	}
	want := []string{
		`my.toml:2: project.requires-python: must be a string`,
		`my.toml:3: project.dynamic: dependencies must be listed in the file itself, not computed`,
		`my.toml:4: project.dependencies[1]: "-r /etc/passwd" is not a requirement such as numpy>=2`,
		`my.toml:4: project.dependencies[2]: "x @ https://example.org/x.whl" refers to an address; name a package of the index, such as numpy>=2`,
		`my.toml:4: project.dependencies[3]: "a\nb" holds a line break`,
		`my.toml:8: tool.biocage.apt[0]: "Bad Name" is not the name of a Debian package`,
		`my.toml:9: tool.biocage.prelaod: is not a known key; known are preload and apt`,
		`my.toml:7: tool.biocage.preload[1]: "os; import evil" is not the name of a Python module`,
	}
	got := strings.Split(err.Error(), "\n")[1:]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseProjectRefusals(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"syntax":        {"[project]\ndependencies = [\n\"a\"\n\"b\"]", "p:4: "},
		"not a project": {"x = 1\n", "p: project: is missing"},
		"a list needed": {"[project]\ndependencies = \"numpy\"\n", "p:2: project.dependencies: must be a list of strings"},
		"mixed list":    {"[project]\ndependencies = [1]\n", "must be a list of strings"},
		"too large":     {strings.Repeat("#", maxProject+1), "p: is larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseProject("p", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestLockInput: what uv is given holds the checked parts only, and pip once.
func TestLockInput(t *testing.T) {
	for name, tt := range map[string]struct {
		in   project
		want []string
	}{
		"pip is added": {project{Dependencies: []string{"six"}}, []string{"six", "pip"}},
		"pip is there": {project{Dependencies: []string{"PIP>=26"}}, []string{"PIP>=26"}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := tt.in.lockInput()
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Project struct{ Dependencies []string }
			}
			if _, err := toml.Decode(string(data), &got); err != nil {
				t.Fatalf("%v in:\n%s", err, data)
			}
			if diff := cmp.Diff(tt.want, got.Project.Dependencies); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseProject(f *testing.F) {
	f.Add([]byte("[project]\ndependencies = [\"a\"]\n"))
	f.Add([]byte("[tool.biocage]\npreload = 1\n[tool.biocage.x]\n"))
	f.Add([]byte("[project]\ndependencies = [\"a\"]\n[tool]\nbiocage = 3"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseProject("p", data)
		if err != nil {
			return
		}
		for _, d := range p.Dependencies {
			if strings.HasPrefix(d, "-") || strings.ContainsAny(d, "\n@") {
				t.Errorf("%q was let through", d)
			}
		}
	})
}
