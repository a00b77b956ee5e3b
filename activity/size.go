package activity

import (
	"errors"
	"fmt"
	"regexp"
)

const (
	// MaxUTF16 is how many bytes an activity may have in UTF-16, the pictures that it
	// holds aside: Teams refuses some 100 KB.
	MaxUTF16 = 80 << 10
	// MaxBytes is how many bytes an activity may have on the wire.
	MaxBytes = 256 << 10
)

// ErrTooLarge is an activity that no channel would take, however often it is sent.
var ErrTooLarge = errors.New("the activity is too large to be sent")

// CheckSize returns an error that wraps [ErrTooLarge] when the activity, as Encode wrote
// it, is larger than the channels take.
func CheckSize(encoded []byte) error {
	if len(encoded) > MaxBytes {
		return fmt.Errorf("%w: %d bytes, %d are the most", ErrTooLarge, len(encoded), MaxBytes)
	}
	if len(encoded) <= MaxUTF16/2 {
		return nil // a byte of UTF-8 is at most one code unit
	}
	if n := 2 * units(encoded); n > MaxUTF16 {
		return fmt.Errorf("%w: %d bytes of UTF-16, %d are the most", ErrTooLarge, n, MaxUTF16)
	}
	return nil
}

// picture is a picture that is a part of the JSON around it, alone or in a text.
var picture = regexp.MustCompile(`"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]*\\?"`)

// units counts the UTF-16 code units, without those of pictures.
func units(encoded []byte) (n int) {
	for _, r := range string(picture.ReplaceAllLiteral(encoded, nil)) {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}
