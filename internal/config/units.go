package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written as 512m, 2g, 64KiB or a plain number.
// Every unit is a power of 1024, whichever way it is spelled.
type Size int64

// Duration is a span of time, written as 30s or 10m; a plain number is seconds.
type Duration time.Duration

const (
	second = Duration(time.Second)
	minute = Duration(time.Minute)
)

// Std is the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the shortest exact spelling.
func (d Duration) String() string { return time.Duration(d).String() }

// String is the shortest exact spelling.
func (s Size) String() string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{40, "t"}, {30, "g"}, {20, "m"}, {10, "KiB"}} {
		if s >= 1<<u.shift && s&(1<<u.shift-1) == 0 {
			return strconv.FormatInt(int64(s>>u.shift), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// ParseSize reads a Size.
func ParseSize(text string) (Size, error) {
	text = strings.TrimSpace(text)
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(text[len(digits):]))
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
	shifts := map[string]uint{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
	shift, ok := shifts[unit]
	n, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q is not a size; write 512m, 2g or 64KiB", text)
	}
	n *= float64(int64(1) << shift)
	if n < 0 || n >= math.MaxInt64 {
		return 0, fmt.Errorf("the size %q is out of range", text)
	}
	return Size(n), nil
}

// ParseDuration reads a Duration.
func ParseDuration(text string) (Duration, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(n) || math.Abs(n) > float64(math.MaxInt64/int64(time.Second)) {
			return 0, fmt.Errorf("the duration %q is out of range", text)
		}
		return Duration(n * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write 30s or 10m", text)
	}
	return Duration(d), nil
}

// parseRoot reads a Root from one word, PATH[:ro|rw].
func parseRoot(text string) (Root, error) {
	path, mode := cutMode(text)
	if path == "" {
		return Root{}, errors.New("write PATH or PATH:rw")
	}
	return Root{Path: path, Mode: mode}, nil
}

// ParseMount reads a Mount from one word, HOST:SANDBOX[:ro|rw].
func ParseMount(text string) (Mount, error) {
	rest, mode := cutMode(text)
	host, target, ok := strings.Cut(rest, ":")
	if !ok || host == "" || target == "" {
		return Mount{}, errors.New("write HOST:SANDBOX or HOST:SANDBOX:rw")
	}
	return Mount{Host: host, Sandbox: target, Mode: mode}, nil
}

func cutMode(text string) (rest, mode string) {
	text = strings.TrimSpace(text)
	for _, mode := range []string{"ro", "rw"} {
		if rest, ok := strings.CutSuffix(text, ":"+mode); ok {
			return rest, mode
		}
	}
	return text, "ro"
}
