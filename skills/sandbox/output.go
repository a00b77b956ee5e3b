package sandbox

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// exceeded is the cancel cause of a run that went over a limit.
type exceeded string

func (e exceeded) Error() string { return "the script exceeded its limit of " + string(e) }

// maxPrinted is how many bytes a program may print, kept or not, before it is killed.
const maxPrinted = 64 << 20

// output keeps the start and the end of what is written to it.
type output struct {
	written int
	head    []byte
	tail    []byte
	full    func() // called on each write beyond maxPrinted
}

func (o *output) Write(p []byte) (int, error) {
	o.written += len(p)
	n := min(len(p), maxOutput/2-len(o.head))
	o.head = append(o.head, p[:n]...)
	o.tail = append(o.tail, p[n:]...)
	if over := len(o.tail) - maxOutput/2; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	if o.written > maxPrinted {
		o.full()
	}
	return len(p), nil
}

// String returns the kept output as text that is safe to show.
func (o *output) String() string {
	if n := o.written - len(o.head) - len(o.tail); n > 0 {
		return clean(string(o.head)) + fmt.Sprintf("\n[truncated %d bytes]\n", n) + clean(string(o.tail))
	}
	return clean(string(o.head) + string(o.tail))
}

// escapes matches terminal escape sequences: ECMA-48's CSI and OSC, and the short ones.
var escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|[ -/]*[0-~])")

// clean keeps only what people and models can see. A joiner is part of words and emoji, but between
// ASCII letters it could only hide something.
func clean(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\r\n", "\n"), string(unicode.ReplacementChar))
	s = escapes.ReplaceAllString(s, "")
	before := ' '
	return strings.Map(func(r rune) rune {
		joins := (r == '\u200c' || r == '\u200d') && before > unicode.MaxASCII && !unicode.Is(unicode.Cf, before)
		before = r
		switch {
		case r == '\n', r == '\t', joins:
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), 0xe0000 <= r && r <= 0xe0fff: // includes tags and variation selectors
			return -1
		}
		return r
	}, s)
}
