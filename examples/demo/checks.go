package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A check tells what is wrong with an answer, or nil.
type check func(answer) error

// fine: the tool did what was asked.
func fine(a answer) error {
	if a.failed {
		return fmt.Errorf("the call failed: %s", firstLine(a.text))
	}
	return nil
}

// ran: the code ended normally, in the interpreter that was there before.
func ran(a answer) error {
	r := a.result
	switch {
	case r.Error != nil:
		return fmt.Errorf("the code failed: %s: %s", r.Error.Kind, firstLine(r.Error.Message))
	case a.failed, !r.Success, r.Status != "done", r.ExitCode != 0:
		return fmt.Errorf("the run did not succeed: success %v, status %q, exit code %d", r.Success, r.Status, r.ExitCode)
	case r.Restarted:
		return errors.New("the interpreter was replaced")
	}
	return nil
}

// value: the last expression's repr.
func value(want string) check {
	return func(a answer) error {
		if a.result.Result == nil || *a.result.Result != want {
			return fmt.Errorf("the value is %s, not %s", orNone(a.result.Result), want)
		}
		return nil
	}
}

// tells: the text that the model reads holds each of the words.
func tells(words ...string) check {
	return func(a answer) error {
		for _, word := range words {
			if !strings.Contains(a.text, word) {
				return fmt.Errorf("the answer does not tell %q", word)
			}
		}
		return nil
	}
}

// fails: the code failed in this way, with an error of one of the types, with
// a hint, and the state was kept.
func fails(kind string, exitCode int, types ...string) check {
	return func(a answer) error {
		r := a.result
		switch {
		case r.Error == nil || !a.failed || r.Success:
			return fmt.Errorf("the code succeeded, though %s was due", kind)
		case r.Error.Kind != kind || r.ExitCode != exitCode:
			return fmt.Errorf("the code ended with %s and exit code %d, not %s and %d", r.Error.Kind, r.ExitCode, kind, exitCode)
		case len(types) > 0 && !slices.Contains(types, r.Error.Type):
			return fmt.Errorf("the error is a %s, not a %s", r.Error.Type, strings.Join(types, " or a "))
		case r.Error.Hint == "":
			return errors.New("the error has no hint")
		case !strings.Contains(a.text, r.Error.Hint):
			return errors.New("the model is not told the hint")
		case r.Restarted:
			return errors.New("the interpreter was replaced")
		}
		return nil
	}
}

// refused: the tool did nothing and says why.
func refused(words ...string) check {
	return func(a answer) error {
		if !a.failed {
			return errors.New("the call succeeded, though it must be refused")
		}
		return tells(words...)(a)
	}
}

// exposed: the data are where the story expects them.
func exposed(path, mode string) check {
	return func(a answer) error {
		if a.result.SandboxPath != path || a.result.Mode != mode {
			return fmt.Errorf("exposed at %s (%s), not at %s (%s)", a.result.SandboxPath, a.result.Mode, path, mode)
		}
		return nil
	}
}

// knows: session_info names the variable.
func knows(name, typ string) check {
	return func(a answer) error {
		for _, v := range a.result.Variables {
			if v.Name == name && v.Type == typ {
				return nil
			}
		}
		return fmt.Errorf("the session's variables lack %s (%s)", name, typ)
	}
}

// hands: the run made this file, and says so in its result and by a link.
func hands(path string) check {
	return func(a answer) error {
		listed := slices.ContainsFunc(a.result.Files, func(f file) bool { return f.Path == path && f.Size > 0 })
		if !listed {
			return fmt.Errorf("the result does not list the new file %s", path)
		}
		for _, link := range a.links {
			if strings.HasSuffix(link.URI, path) {
				return nil
			}
		}
		return fmt.Errorf("no link leads to the new file %s", path)
	}
}

// saveImage: exactly one figure came, large enough to read; it is kept.
func saveImage(dir, name string) check {
	return func(a answer) error {
		if len(a.images) != 1 || a.result.Images != 1 {
			return fmt.Errorf("%d images came and %d were told, not one", len(a.images), a.result.Images)
		}
		pic := a.images[0]
		if pic.mime != "image/png" || pic.width < 200 || pic.height < 200 {
			return fmt.Errorf("the figure is %s of %d x %d", pic.mime, pic.width, pic.height)
		}
		return save(dir, name, pic.data)
	}
}

// saveContent: the file came whole, with these lines; it is kept.
func saveContent(dir, name string, lines ...string) check {
	return func(a answer) error {
		content := a.result.Content
		if int64(len(content)) != a.result.Size {
			return fmt.Errorf("%d of %d bytes came", len(content), a.result.Size)
		}
		for _, line := range lines {
			if !strings.Contains(content, line+"\n") {
				return fmt.Errorf("the file lacks the line %q", line)
			}
		}
		return save(dir, name, []byte(content))
	}
}

func save(dir, name string, data []byte) error {
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil { //nolint:gosec // a figure for people to open
		return fmt.Errorf("cannot save: %w", err)
	}
	return nil
}

func orNone(text *string) string {
	if text == nil {
		return "none"
	}
	return *text
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
