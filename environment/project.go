package environment

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxProject bounds a project file.
const maxProject = 1 << 20

// defaultFonts are installed when a project says nothing of Debian packages:
// without a font that has them, figures show Chinese, Japanese and Korean text
// as empty boxes.
func defaultFonts() []string { return []string{"fonts-wqy-microhei"} }

// A project is what a pyproject.toml asks of an environment.
type project struct {
	RequiresPython string
	Dependencies   []string
	Preload        []string
	Apt            []string
}

// projectFile mirrors the parts of a pyproject.toml that are read. Primitive
// keeps one value of the wrong type from hiding the file's other faults.
type projectFile struct {
	Project struct {
		RequiresPython toml.Primitive `toml:"requires-python"`
		Dependencies   toml.Primitive `toml:"dependencies"`
		Dynamic        toml.Primitive `toml:"dynamic"`
	} `toml:"project"`
	Tool struct {
		BioCage map[string]toml.Primitive `toml:"biocage"`
	} `toml:"tool"`
}

var (
	requirementPattern = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:[\[(<>=!~;]|$)`)
	modulePattern      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
	debianPattern      = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
)

// parseProject reads a pyproject.toml; file is its name in faults. All faults
// are told at once.
func parseProject(file string, data []byte) (project, error) {
	p := projectParser{file: file, data: data}
	if len(data) > maxProject {
		p.fault("", "is larger than 1 MiB")
		return project{}, p.err()
	}
	var raw projectFile
	meta, err := toml.Decode(string(data), &raw)
	if err != nil {
		p.syntax(err)
		return project{}, p.err()
	}
	p.meta = meta
	out := project{Apt: defaultFonts()}
	if !meta.IsDefined("project") {
		p.fault("project", "is missing; list the packages under [project] as dependencies = [\"numpy\", ...]")
	}
	p.decode("project.requires-python", raw.Project.RequiresPython, &out.RequiresPython)
	if _, err := parseSpecifiers(out.RequiresPython); err != nil {
		p.fault("project.requires-python", err.Error())
	}
	p.decode("project.dependencies", raw.Project.Dependencies, &out.Dependencies)
	var dynamic []string
	p.decode("project.dynamic", raw.Project.Dynamic, &dynamic)
	if slices.Contains(dynamic, "dependencies") {
		p.fault("project.dynamic", "dependencies must be listed in the file itself, not computed")
	}
	p.words("project.dependencies", out.Dependencies, checkRequirement)
	p.biocage(raw.Tool.BioCage, &out)
	return out, p.err()
}

// projectParser collects the faults of one file.
type projectParser struct {
	file   string
	data   []byte
	meta   toml.MetaData
	faults []error
}

func (p *projectParser) biocage(table map[string]toml.Primitive, out *project) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		name := "tool.biocage." + key
		switch key {
		case "preload":
			p.decode(name, table[key], &out.Preload)
			p.words(name, out.Preload, func(word string) string {
				return matches(modulePattern, word, "is not the name of a Python module")
			})
		case "apt":
			out.Apt = nil
			p.decode(name, table[key], &out.Apt)
			p.words(name, out.Apt, func(word string) string {
				return matches(debianPattern, word, "is not the name of a Debian package")
			})
		default:
			p.fault(name, "is not a known key; known are preload and apt")
		}
	}
}

// decode reads one value; an absent one leaves target as it is.
func (p *projectParser) decode(key string, value toml.Primitive, target any) {
	if !p.meta.IsDefined(strings.Split(key, ".")...) {
		return
	}
	if err := p.meta.PrimitiveDecode(value, target); err != nil {
		want := "a list of strings"
		if _, text := target.(*string); text {
			want = "a string"
		}
		p.fault(key, "must be "+want)
	}
}

// words checks every string of a list; check returns what is wrong, or "".
func (p *projectParser) words(key string, words []string, check func(string) string) {
	for i, word := range words {
		if reason := check(word); reason != "" {
			p.fault(fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("%q %s", word, reason))
		}
	}
}

func (p *projectParser) syntax(err error) {
	if parse, ok := errors.AsType[toml.ParseError](err); ok {
		p.faults = append(p.faults, &ProjectError{File: p.file, Line: parse.Position.Line, Reason: parse.Message})
		return
	}
	p.fault("", err.Error())
}

func (p *projectParser) fault(key, reason string) {
	p.faults = append(p.faults, &ProjectError{File: p.file, Line: p.line(key), Key: key, Reason: reason})
}

// line finds where key is set: the decoder does not tell. Good enough for a
// person to look at; 0 when not found.
func (p *projectParser) line(key string) int {
	if key == "" {
		return 0
	}
	name, _, _ := strings.Cut(key[strings.LastIndexByte(key, '.')+1:], "[")
	for i, line := range bytes.Split(p.data, []byte("\n")) {
		text, _, found := strings.Cut(string(line), "=")
		if found && strings.Trim(strings.TrimSpace(text), `"'`) == name {
			return i + 1
		}
	}
	return 0
}

func (p *projectParser) err() error {
	if len(p.faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrProject, errors.Join(p.faults...))
}

// checkRequirement lets through what names a package of an index. Options,
// paths and addresses would reach outside the lock.
func checkRequirement(word string) string {
	if strings.ContainsAny(word, "\r\n\x00") {
		return "holds a line break"
	}
	if strings.Contains(word, "@") {
		return "refers to an address; name a package of the index, such as numpy>=2"
	}
	return matches(requirementPattern, word, "is not a requirement such as numpy>=2")
}

func matches(pattern *regexp.Regexp, word, reason string) string {
	if pattern.MatchString(word) {
		return ""
	}
	return reason
}

// lockInput is the project file that uv compiles: only what was checked, and
// pip, so that %pip works where a sandbox has a network.
func (p project) lockInput() ([]byte, error) {
	type table struct {
		Name           string   `toml:"name"`
		Version        string   `toml:"version"`
		RequiresPython string   `toml:"requires-python,omitempty"`
		Dependencies   []string `toml:"dependencies"`
	}
	dependencies := slices.Clone(p.Dependencies)
	if !slices.ContainsFunc(dependencies, func(d string) bool { return requirementName(d) == "pip" }) {
		dependencies = append(dependencies, "pip")
	}
	var out bytes.Buffer
	err := toml.NewEncoder(&out).Encode(map[string]table{"project": {
		Name: "biocage-environment", Version: "1",
		RequiresPython: p.RequiresPython, Dependencies: dependencies,
	}})
	if err != nil {
		return nil, fmt.Errorf("write the requirements: %w", err)
	}
	return out.Bytes(), nil
}
