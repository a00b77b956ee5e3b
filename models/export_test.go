package models

import (
	"bufio"
	"io"
)

// FoldStream reads a stream into the body of a completion. The reading of streams
// is fuzzed, and its waiting tested with a clock that can be turned; neither goes
// over a network.
func FoldStream(body io.ReadCloser, maxBytes int64) ([]byte, error) {
	return (&stream{in: bufio.NewReader(body), body: body, maxBytes: maxBytes}).read()
}
