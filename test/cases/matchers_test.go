package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// matchers is the vocabulary of `expect`.
func matchers() map[string]matcher {
	table := fieldMatchers()
	maps.Copy(table, textMatchers())
	maps.Copy(table, errorMatchers())
	maps.Copy(table, answerMatchers())
	return table
}

func fieldMatchers() map[string]matcher {
	return map[string]matcher{
		"success":   onRun(func(r *runFields, want bool) error { return same(r.Success, want) }),
		"exit_code": onRun(func(r *runFields, want int) error { return same(r.ExitCode, want) }),
		"truncated": onRun(func(r *runFields, want bool) error { return same(r.Truncated, want) }),
		"result":    onRun(func(r *runFields, want *string) error { return same(r.Result, want) }),
		"result_in": onValue(func(text string, want []string) error { return oneOf(text, want) }),
		"result_contains": onValue(func(text string, want texts) error {
			return has(text, want)
		}),
		"result_matches":   onValue(search),
		"result_max_bytes": onValue(func(text string, most int) error { return atMost(len(text), most, "bytes") }),
		"result_differs_from": typed(func(c *check, step int) error {
			other := c.step(step)
			if c.out.run == nil || other == nil || other.run == nil {
				return fmt.Errorf("one of the two results is not there")
			}
			mine, err := valueText(c.out.run)
			if err != nil {
				return err
			}
			theirs, err := valueText(other.run)
			if err != nil {
				return err
			}
			if mine == theirs {
				return fmt.Errorf("is %s both times", show(mine))
			}
			return nil
		}),
		"results_distinct": typed(distinct),
		"restarted":        typed(restarted),
		"state_kept":       onRun(func(r *runFields, want bool) error { return same(!r.Restarted, want) }),
	}
}

// distinct looks at all answers of parallel calls.
func distinct(c *check, want bool) error {
	seen := map[string]bool{}
	for _, out := range c.group {
		if out.run == nil || out.run.Result == nil {
			return fmt.Errorf("an answer has no value")
		}
		if seen[*out.run.Result] == want {
			return fmt.Errorf("%s comes twice", *out.run.Result)
		}
		seen[*out.run.Result] = want
	}
	return nil
}

// restarted may be told by the call that lost the process or by the next
// python_run; the case may name either.
func restarted(c *check, want bool) error {
	switch {
	case c.out.run == nil:
		return fmt.Errorf("there is no result object")
	case c.out.run.Restarted == want:
		return nil
	case !want:
		return fmt.Errorf("is true")
	case c.before != nil && c.before.run != nil && c.before.run.Restarted:
		return nil
	case c.after == nil:
		c.open = true
		return nil
	case c.after.run != nil && c.after.run.Restarted:
		return nil
	}
	return fmt.Errorf("neither this call nor the next one told the loss")
}

func textMatchers() map[string]matcher {
	both := func(r *runFields) string { return r.Stdout + r.Stderr }
	return map[string]matcher{
		"stdout":              onRun(func(r *runFields, want string) error { return same(r.Stdout, want) }),
		"stderr":              onRun(func(r *runFields, want string) error { return same(r.Stderr, want) }),
		"stdout_contains":     onRun(func(r *runFields, want texts) error { return has(r.Stdout, want) }),
		"stderr_contains":     onRun(func(r *runFields, want texts) error { return has(r.Stderr, want) }),
		"output_contains":     onRun(func(r *runFields, want texts) error { return has(both(r), want) }),
		"stdout_not_contains": onRun(func(r *runFields, want texts) error { return hasNot(r.Stdout, want) }),
		"stderr_not_contains": onRun(func(r *runFields, want texts) error { return hasNot(r.Stderr, want) }),
		"stdout_matches":      onRun(func(r *runFields, want string) error { return search(r.Stdout, want) }),
		"occurrences": onRun(func(r *runFields, want map[string]int) error {
			for text, times := range want {
				if got := strings.Count(both(r), text); got != times {
					return fmt.Errorf("%s comes %d times, want %d", show(text), got, times)
				}
			}
			return nil
		}),
	}
}

func errorMatchers() map[string]matcher {
	return map[string]matcher{
		"error_type":             onError(func(e *runError, want string) error { return same(e.Type, want) }),
		"error_type_in":          onError(func(e *runError, want []string) error { return oneOf(e.Type, want) }),
		"error_class":            onError(func(e *runError, want string) error { return same(e.class(), want) }),
		"error_class_in":         onError(func(e *runError, want []string) error { return oneOf(e.class(), want) }),
		"error_line":             onError(func(e *runError, want int) error { return same(e.Line, want) }),
		"error_line_in":          onError(func(e *runError, want []int) error { return oneOf(e.Line, want) }),
		"error_message_contains": onError(func(e *runError, want texts) error { return has(e.Message, want) }),
		"traceback_contains":     onError(func(e *runError, want texts) error { return has(e.Traceback, want) }),
		"traceback_not_contains": onError(func(e *runError, want texts) error { return hasNot(e.Traceback, want) }),
		"hint":                   onError(func(e *runError, want bool) error { return same(e.Hint != "", want) }),
	}
}

func answerMatchers() map[string]matcher {
	return map[string]matcher{
		"images": typed(func(c *check, want int) error { return same(len(c.out.images), want) }),
		"images_min": typed(func(c *check, least int) error {
			return atMost(least, len(c.out.images), "images wanted")
		}),
		"image_valid": typed(func(c *check, want bool) error {
			for _, p := range c.out.images {
				if err := p.valid(); (err == nil) != want {
					return fmt.Errorf("want %t: %w", want, err)
				}
			}
			return nil
		}),
		"image_max_bytes": typed(func(c *check, most int) error {
			for _, p := range c.out.images {
				if err := atMost(len(p.data), most, "bytes"); err != nil {
					return err
				}
			}
			return nil
		}),
		"contains":     typed(func(c *check, want texts) error { return has(c.out.words(), want) }),
		"not_contains": typed(func(c *check, want texts) error { return hasNot(c.out.words(), want) }),
		"valid_json_utf8": typed(func(c *check, want bool) error {
			if err := strayUTF8(c.out.raw); (err == nil) != want {
				return fmt.Errorf("want %t: %w", want, err)
			}
			return nil
		}),
		// Images count too, though the corpus allows not to count them.
		"response_max_bytes": typed(func(c *check, most int) error { return atMost(len(c.out.raw), most, "bytes") }),
		"max_seconds":        typed(func(c *check, most float64) error { return atMost(c.out.seconds, most, "seconds") }),
		"tool_error": typed(func(c *check, want bool) error {
			return same(c.out.isError || c.out.failure != "", want)
		}),
		"tool_error_contains": typed(func(c *check, want texts) error {
			return has(c.out.failure+c.out.text, want)
		}),
		"progress_min": typed(func(c *check, least int) error { return atMost(least, c.out.progress, "progress notes wanted") }),
		"value":        typed(func(c *check, want any) error { return same(c.out.value, want) }),
		"owner":        ownerMatcher,
	}
}

// ownerMatcher takes a number (the user) or a text "user:group".
func ownerMatcher(c *check, raw json.RawMessage) error {
	want := strings.Trim(string(raw), `"`)
	if got := c.out.owner; got != want && !strings.HasPrefix(got, want+":") {
		return fmt.Errorf("is %s, want %s", got, want)
	}
	return nil
}
