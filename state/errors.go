package state

import (
	"errors"
	"fmt"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

// What can go wrong, for errors.Is. The types beside them carry the details.
var (
	// ErrConflict: somebody else saved the document since it was loaded. Load again, decide again.
	ErrConflict = errors.New("state was changed by somebody else")
	// ErrTooLarge: a document is larger than [Config.MaxBytes].
	ErrTooLarge = errors.New("state is too large")
	// ErrFormat: a document was not written by this program, or by a newer one.
	ErrFormat = errors.New("state has an unknown format")
	// ErrValue: a stored value does not decode into, or a live value does not encode from, its Go type.
	ErrValue = errors.New("state value does not fit its type")
	// ErrKey: a key was built from parts that cannot name a document.
	ErrKey = errors.New("state key is unusable")
	// ErrUnavailable: Redis could not be reached or cannot serve now. Trying again later may help.
	ErrUnavailable = rdb.ErrUnavailable
)

// ConflictError says which documents of a Save lost the race. Documents of one
// partition are saved together or not at all, so a conversation and its thread
// are both in Conflicted when one of them lost; documents of other partitions
// may be in Saved. It wraps [ErrConflict].
type ConflictError struct {
	Conflicted []Key // not saved
	Saved      []Key // saved by the same call
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("save state %v: %v", e.Conflicted, ErrConflict)
}

func (e *ConflictError) Unwrap() error { return ErrConflict }

// TooLargeError says which document is larger than allowed. It wraps [ErrTooLarge].
type TooLargeError struct {
	Key   Key
	Size  int // bytes, as stored
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("state %s: %v: %d bytes, the limit is %d", e.Key, ErrTooLarge, e.Size, e.Limit)
}

func (e *TooLargeError) Unwrap() error { return ErrTooLarge }

// FormatError says which document could not be read at all. It wraps [ErrFormat].
type FormatError struct {
	Key    Key
	Format string // the number found in its header, "" when there is none
}

func (e *FormatError) Error() string {
	if e.Format == "" {
		return fmt.Sprintf("state %s: %v: it was not written by this program", e.Key, ErrFormat)
	}
	return fmt.Sprintf("state %s: %v: %s, this program knows %d; a newer program wrote it", e.Key, ErrFormat, e.Format, format)
}

func (e *FormatError) Unwrap() error { return ErrFormat }

// ValueError says which value of a document does not fit its Go type. It wraps
// [ErrValue] and the cause.
type ValueError struct {
	Key  Key // the zero Key in a detached scope
	Name string
	Err  error
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("state %s: value %q: %v", e.Key, e.Name, e.Err)
}

func (e *ValueError) Unwrap() []error { return []error{ErrValue, e.Err} }
