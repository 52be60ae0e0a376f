package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	reference = "../../docs/configuration.md"
	example   = "../../config.example.yaml"
)

// TestReferenceIsFresh makes docs/configuration.md: keys, types and defaults
// from the configuration type, their meaning from the comments of the example.
// `make docs` writes the page, else the test compares.
func TestReferenceIsFresh(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	got := referencePage(t, exampleComments(string(text)))
	if *update {
		if err := os.WriteFile(reference, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(reference)
	if err != nil {
		t.Fatalf("%v; run make docs", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is stale; run make docs (-page +configuration):\n%s", filepath.Base(reference), diff)
	}
}

var update = flag.Bool("update", false, "write docs/configuration.md")

const referenceHead = `# Configuration

<!-- Made by "make docs" from internal/config and config.example.yaml. -->

` + "```sh\nbiocage serve --config biocage.yaml\n```" + `

A file needs only the keys that differ from the defaults.
[config.example.yaml](../config.example.yaml) is a file with all of them.

Precedence: flag, then environment variable, then file (` + "`--config` or `BIOCAGE_CONFIG`" + `),
then default. [command-line.md](command-line.md) lists the flags.

- Sizes: ` + "`512m`, `2g`, `64KiB`" + `; always powers of 1024.
- Durations: ` + "`30s`, `10m`" + `; a plain number is seconds.
- Lists in variables take commas. Roots are ` + "`PATH[:rw]`, mounts `HOST:SANDBOX[:rw]`" + ` there.

An unknown key, a wrong type or an impossible value stops the start. Every fault
is listed at once with file, line and key. So does a ` + "`BIOCAGE_`" + ` variable that is
nearly one of these; one that resembles none is ignored, with a line in the log.
`

// referencePage writes a table for each section.
func referencePage(t *testing.T, meaning map[string]string) string {
	t.Helper()
	cfg := Default()
	var b strings.Builder
	b.WriteString(referenceHead)
	section := "?"
	for _, f := range fieldsOf(&cfg) {
		if meaning[f.key] == "" {
			t.Errorf("config.example.yaml has no comment on %s", f.key)
		}
		if name, _, nested := strings.Cut(f.key, "."); nested && name != section || section == "?" {
			section = name
			title := "## " + name
			if !nested {
				title = "## At the top"
			} else if meaning[name] != "" {
				title += "\n\n" + meaning[name]
			}
			b.WriteString("\n" + title + "\n\n| key | type | default | variable | meaning |\n| --- | --- | --- | --- | --- |\n")
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | `%s` | %s |\n", f.key, typeName(f.value), defaultText(f.value), EnvName(f.key), meaning[f.key])
	}
	return b.String()
}

func typeName(v reflect.Value) string {
	switch v.Interface().(type) {
	case Size:
		return "size"
	case Duration:
		return "duration"
	case []Root:
		return "list of `{path, mode}`"
	case []Mount:
		return "list of `{host, sandbox, mode}`"
	case []string:
		return "list of texts"
	case bool:
		return "true or false"
	case float64:
		return "number"
	case int, int64:
		return "whole number"
	}
	return "text"
}

func defaultText(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case Size:
		for _, unit := range []struct {
			name  string
			bytes Size
		}{{"g", 1 << 30}, {"m", 1 << 20}, {"KiB", 1 << 10}} {
			if value >= unit.bytes && value%unit.bytes == 0 {
				return fmt.Sprintf("%d%s", value/unit.bytes, unit.name)
			}
		}
	case Duration:
		if text, whole := strings.CutSuffix(value.Std().String(), "m0s"); whole {
			return text + "m"
		}
		return value.Std().String()
	case string:
		if value == "" {
			return `""`
		}
	}
	if v.Kind() == reflect.Slice {
		return "[]"
	}
	return fmt.Sprint(v.Interface())
}

// exampleComments gives what the example says of each key: the comment behind
// it, with the lines that go on, or the one above it.
func exampleComments(text string) map[string]string {
	entry := regexp.MustCompile(`^( *)([a-z_]+):([^#]*)(?:# (.*))?$`)
	comment := regexp.MustCompile(`^ *# ?(.*)$`)
	meaning := map[string]string{}
	var path []string // the sections around a line
	last, above := "", ""
	for line := range strings.SplitSeq(text, "\n") {
		if m := entry.FindStringSubmatch(line); m != nil {
			path = append(path[:min(len(m[1])/2, len(path))], m[2])
			key := strings.Join(path, ".")
			meaning[key], last, above = above, key, ""
			if m[4] != "" {
				meaning[key] = m[4]
			}
			continue
		}
		m := comment.FindStringSubmatch(line)
		switch {
		case m == nil:
			last, above = "", ""
		case last != "" && strings.HasPrefix(line, " "): // goes on behind a key
			meaning[last] += " " + quoteItem(m[1])
		default:
			last, above = "", strings.TrimSpace(above+" "+m[1])
		}
	}
	return meaning
}

// quoteItem marks an example of a list's item as code.
func quoteItem(text string) string {
	if item, ok := strings.CutPrefix(strings.TrimSpace(text), "- "); ok {
		return "`" + item + "`"
	}
	return strings.TrimSpace(text)
}
