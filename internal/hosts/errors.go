package hosts

import "errors"

var (
	// ErrUnknown means that there is no host of that name, or that it has no
	// such scope.
	ErrUnknown = errors.New("unknown host")
	// ErrMalformed means that the host's file is not what it should be.
	ErrMalformed = errors.New("malformed file")
	// ErrConflict means that the change would destroy something of the user's.
	ErrConflict = errors.New("conflict")
)

// A fault is a sentence of its own that is also one of the errors above.
type fault struct {
	kind error
	text string
}

func (f fault) Error() string { return f.text }
func (f fault) Unwrap() error { return f.kind }

// byHand is the remedy where a file cannot be edited.
const byHand = "correct it, or print the entry with --print and add it by hand"
