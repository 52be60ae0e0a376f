package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// A check is one look at an outcome.
type check struct {
	out    *outcome
	group  []*outcome // all answers of parallel calls
	before *outcome   // the client's python_run before this one, if any
	after  *outcome   // the one after it, once it is there
	step   func(int) *outcome

	// open: it takes the next python_run to tell.
	open bool
}

// A matcher tells how an outcome fails what is wanted.
type matcher func(c *check, want json.RawMessage) error

// verify gives every mismatch.
func (e expect) verify(c *check) error {
	var faults []error
	table := matchers()
	for _, key := range slices.Sorted(maps.Keys(e)) {
		var err error
		if key == "any_of" {
			err = anyOf(c, e[key])
		} else {
			err = table[key](c, e[key])
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
		}
	}
	return errors.Join(faults...)
}

// anyOf prefers an alternative that holds now over one that the next
// python_run must confirm.
func anyOf(c *check, raw json.RawMessage) error {
	var each []expect
	if err := json.Unmarshal(raw, &each); err != nil {
		return err
	}
	var faults []error
	open := false
	for _, one := range each {
		trial := *c
		trial.open = false
		err := one.verify(&trial)
		switch {
		case err == nil && !trial.open:
			return nil
		case err == nil:
			open = true
		default:
			faults = append(faults, err)
		}
	}
	if open {
		c.open = true
		return nil
	}
	return fmt.Errorf("none holds: %w", errors.Join(faults...))
}

// typed makes a matcher that gets the wanted value decoded.
func typed[T any](look func(c *check, want T) error) matcher {
	return func(c *check, raw json.RawMessage) error {
		var want T
		if err := json.Unmarshal(raw, &want); err != nil {
			return fmt.Errorf("the case is wrong: %w", err)
		}
		return look(c, want)
	}
}

// texts is a string or a list of strings.
type texts []string

func (t *texts) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// onRun makes a matcher for a field of python_run's result object.
func onRun[T any](look func(run *runFields, want T) error) matcher {
	return typed(func(c *check, want T) error {
		if c.out.run == nil {
			return fmt.Errorf("there is no result object")
		}
		return look(c.out.run, want)
	})
}

// onError makes a matcher for a field of the error.
func onError[T any](look func(e *runError, want T) error) matcher {
	return onRun(func(run *runFields, want T) error {
		if run.Error == nil {
			return fmt.Errorf("there is no error")
		}
		return look(run.Error, want)
	})
}

func same[T any](got, want T) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("is %s, want %s", show(got), show(want))
	}
	return nil
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%.400s", text)
}

func oneOf[T comparable](got T, want []T) error {
	if !slices.Contains(want, got) {
		return fmt.Errorf("is %s, want one of %s", show(got), show(want))
	}
	return nil
}

func has(text string, want texts) error {
	for _, one := range want {
		if !strings.Contains(text, one) {
			return fmt.Errorf("%s is not in %s", show(one), show(text))
		}
	}
	return nil
}

func hasNot(text string, want texts) error {
	for _, one := range want {
		if strings.Contains(text, one) {
			return fmt.Errorf("%s is in the text", show(one))
		}
	}
	return nil
}

func atMost[T int | float64](got, most T, unit string) error {
	if got > most {
		return fmt.Errorf("%v %s, at most %v are allowed", got, unit, most)
	}
	return nil
}

func search(text, pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("the case is wrong: %w", err)
	}
	if !re.MatchString(text) {
		return fmt.Errorf("%s does not match %s", show(text), pattern)
	}
	return nil
}

// valueText is the value's text, which must be there.
func valueText(run *runFields) (string, error) {
	if run.Result == nil {
		return "", fmt.Errorf("there is no value")
	}
	return *run.Result, nil
}

// onValue makes a matcher for the text of the value.
func onValue[T any](look func(text string, want T) error) matcher {
	return onRun(func(run *runFields, want T) error {
		text, err := valueText(run)
		if err != nil {
			return err
		}
		return look(text, want)
	})
}
