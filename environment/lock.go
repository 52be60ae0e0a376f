package environment

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
)

// A pin is one requirement of a lock: an exact version and the hashes of the
// files that may be installed for it.
type pin struct {
	Name    string
	Version string
	Hashes  []string // hex SHA-256
}

var (
	pinPattern  = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)(?:\s*;\s*(.+))?$`)
	hashPattern = regexp.MustCompile(`^--hash=sha256:([0-9a-f]{64})$`)
	dashes      = regexp.MustCompile(`[-_.]+`)
)

// parseLock reads a requirements file in which every requirement is pinned and
// hashed; anything else is a fault, and all faults are told at once. uv checks
// the hashes; this makes sure that it is asked to.
func parseLock(data []byte) ([]pin, error) {
	var pins []pin
	var faults []error
	seen := make(map[string]int)
	for number, text := range logicalLines(data) {
		p, err := parsePin(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		if first, twice := seen[p.Name]; twice && !strings.Contains(text, ";") {
			faults = append(faults, fmt.Errorf("line %d: %s is already pinned on line %d", number, p.Name, first))
			continue
		}
		seen[p.Name] = number
		pins = append(pins, p)
	}
	if len(pins) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("it pins nothing"))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("%w:\n%w", ErrLock, errors.Join(faults...))
	}
	return pins, nil
}

func parsePin(text string) (pin, error) {
	requirement, rest, _ := strings.Cut(text, " --hash=")
	match := pinPattern.FindStringSubmatch(strings.TrimSpace(requirement))
	if match == nil {
		return pin{}, fmt.Errorf("%q is not a pinned requirement (name==version)", requirement)
	}
	p := pin{Name: canonicalName(match[1]), Version: match[2]}
	if rest == "" {
		return pin{}, fmt.Errorf("%s has no hash", p.Name)
	}
	for word := range strings.FieldsSeq("--hash=" + rest) {
		hash := hashPattern.FindStringSubmatch(word)
		if hash == nil {
			return pin{}, fmt.Errorf("%s: %q is not a SHA-256 hash", p.Name, word)
		}
		p.Hashes = append(p.Hashes, hash[1])
	}
	return p, nil
}

// logicalLines yields the lines of a requirements file without comments and
// blank ones, continuation lines joined, with the number of each one's first.
func logicalLines(data []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		var words []string
		number, start := 0, 1
		for line := range strings.Lines(string(data) + "\n\n") {
			number++
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") {
				line = ""
			}
			text, continued := strings.CutSuffix(line, `\`)
			if text = strings.TrimSpace(text); text != "" {
				words = append(words, text)
			}
			if continued {
				continue
			}
			if len(words) > 0 && !yield(start, strings.Join(words, " ")) {
				return
			}
			words, start = words[:0], number+1
		}
	}
}

// canonicalName is a distribution's name as indexes compare it.
func canonicalName(name string) string {
	return dashes.ReplaceAllString(strings.ToLower(name), "-")
}

// requirementName is the canonical name at the start of a requirement.
func requirementName(requirement string) string {
	end := strings.IndexFunc(requirement, func(r rune) bool {
		return !strings.ContainsRune("._-", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if end >= 0 {
		requirement = requirement[:end]
	}
	return canonicalName(requirement)
}
