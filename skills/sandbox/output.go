package sandbox

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// output keeps the beginning and the end of what is written to it. The zero value keeps
// nothing.
type output struct {
	max     int // bytes kept
	written int64
	head    []byte
	tail    []byte // a ring once it is full
	at      int    // where the ring begins
	full    func() // called with each write beyond maxPrinted
}

func (o *output) Write(p []byte) (int, error) {
	o.written += int64(len(p))
	n := min(len(p), o.max-o.max/2-len(o.head))
	o.head = append(o.head, p[:n]...)
	o.keepTail(p[n:])
	if o.written > maxPrinted {
		o.full()
	}
	return len(p), nil
}

func (o *output) keepTail(p []byte) {
	size := o.max / 2
	p = p[max(0, len(p)-size):]
	n := min(len(p), size-len(o.tail))
	o.tail = append(o.tail, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(o.tail[o.at:], p)
		o.at = (o.at + n) % size
	}
}

func (o *output) dropped() int64 {
	return o.written - int64(len(o.head)) - int64(len(o.tail))
}

// String is what was kept, as text that is safe to show.
func (o *output) String() string {
	head, tail := string(o.head), string(o.tail[o.at:])+string(o.tail[:o.at])
	if n := o.dropped(); n > 0 {
		return clean(head) + fmt.Sprintf("\n[truncated %d bytes]\n", n) + clean(tail)
	}
	return clean(head + tail)
}

// escapes are the sequences that steer terminals: ECMA-48's CSI and OSC, and the short ones.
var escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|[ -/]*[0-~])")

// clean leaves of a text what people and models can see. A joiner is part of words and emoji,
// but not between letters of ASCII, where it could only hide something.
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
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), 0xe0000 <= r && r <= 0xe0fff: // tags and variations among these
			return -1
		}
		return r
	}, s)
}
