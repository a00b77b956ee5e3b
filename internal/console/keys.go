package console

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The line editor knows one line. Within it, these two stand for a line break
// and a tab; unfold turns them back.
const (
	lineBreak = '\u2424' // SYMBOL FOR NEWLINE
	tabStop   = '\u2409' // SYMBOL FOR HORIZONTAL TABULATION
)

func unfold(line string) string {
	return strings.NewReplacer(string(lineBreak), "\n", string(tabStop), "\t").Replace(line)
}

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	// maxPaste keeps a pasted text below what one activity may be.
	maxPaste    = 256 << 10
	pasteCut    = "\n[the pasted text was cut here]"
	maxSequence = 32 // bytes of an escape sequence, far more than any key has
)

// known translates the escape sequences of keys into the few forms that the
// line editor understands. It drops what is not here: the editor would type it.
func known(sequence string) string {
	switch sequence {
	case "\x1b[A", "\x1bOA":
		return "\x1b[A" // up
	case "\x1b[B", "\x1bOB":
		return "\x1b[B" // down
	case "\x1b[C", "\x1bOC":
		return "\x1b[C" // right
	case "\x1b[D", "\x1bOD":
		return "\x1b[D" // left
	case "\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~":
		return "\x1b[H" // home
	case "\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~":
		return "\x1b[F" // end
	case "\x1b[3~":
		return "\x1b[3~" // delete
	case "\x1b[1;3D", "\x1b[1;5D", "\x1bb":
		return "\x1b[1;3D" // a word to the left
	case "\x1b[1;3C", "\x1b[1;5C", "\x1bf":
		return "\x1b[1;3C" // a word to the right
	case "\x1b\x7f", "\x1b\x08":
		return "\x17" // delete a word
	case "\x1b\r", "\x1b\n":
		return string(lineBreak)
	}
	return ""
}

// keys reads what a terminal sends and hands the line editor only what it can
// take: whole characters, known keys, and a pasted text as part of the line,
// whatever it holds. The editor alone would send each pasted line by itself,
// and hang on bytes that are not UTF-8.
type keys struct {
	from    io.Reader
	in      [1 << 10]byte
	pending []byte // read, not yet understood
	ready   []byte // for the editor
	pasting bool
	paste   []byte
	err     error
}

func newKeys(from io.Reader) *keys { return &keys{from: from} }

// Read is for one caller. What comes with an error counts before it.
func (k *keys) Read(p []byte) (int, error) {
	for len(k.ready) == 0 {
		if k.err != nil {
			return 0, k.err
		}
		var n int
		n, k.err = k.from.Read(k.in[:])
		k.pending = append(k.pending, k.in[:n]...)
		for k.step() {
		}
	}
	n := copy(p, k.ready)
	k.ready = k.ready[n:]
	return n, nil
}

// step takes one piece off pending; false when more has to be read first.
func (k *keys) step() bool {
	switch {
	case len(k.pending) == 0:
		return false
	case k.pasting:
		return k.takePaste()
	case k.pending[0] == '\x1b':
		return k.takeSequence()
	case !utf8.FullRune(k.pending):
		return false
	}
	r, size := utf8.DecodeRune(k.pending)
	switch r {
	case utf8.RuneError: // no UTF-8, or the character that stands for it
	case lineBreak, tabStop: // typed, they are no line break
	case '\t':
		k.ready = utf8.AppendRune(k.ready, tabStop)
	default:
		k.ready = append(k.ready, k.pending[:size]...)
	}
	k.pending = k.pending[size:]
	return true
}

// takeSequence takes an escape sequence: ESC [ … final, ESC O x, or ESC and a
// key, which is Alt and that key.
func (k *keys) takeSequence() bool {
	size := sequenceSize(k.pending)
	if size == 0 {
		return false
	}
	sequence := string(k.pending[:size])
	if sequence == pasteStart {
		k.pasting = true
	} else {
		k.ready = append(k.ready, known(sequence)...)
	}
	k.pending = k.pending[size:]
	return true
}

// sequenceSize returns 0 while the sequence is not complete.
func sequenceSize(b []byte) int {
	switch {
	case len(b) < 2:
		return 0
	case b[1] == 'O':
		return sequenceSizeO(b)
	case b[1] != '[' && known(string(b[:2])) == "":
		return 1 // Escape by itself; the key after it counts as usual
	case b[1] != '[':
		return 2
	}
	for i, c := range b[2:] {
		if c < ' ' || c >= 0x7f || i > maxSequence {
			return 2 + i // broken off: what comes next is another key
		}
		if c >= '@' {
			return 3 + i
		}
	}
	return 0
}

// sequenceSizeO is sequenceSize for ESC O x.
func sequenceSizeO(b []byte) int {
	switch {
	case len(b) < 3:
		return 0
	case b[2] < ' ' || b[2] >= utf8.RuneSelf:
		return 2 // broken off
	}
	return 3
}

// takePaste collects the pasted text until its end mark.
func (k *keys) takePaste() bool {
	text, rest, ended := bytes.Cut(k.pending, []byte(pasteEnd))
	if !ended {
		// The mark may have come in part.
		keep := min(len(k.pending), len(pasteEnd)-1)
		text, rest = k.pending[:len(k.pending)-keep], k.pending[len(k.pending)-keep:]
	}
	room := maxPaste + 1 - len(k.paste) // one more, to know that there was more
	k.paste = append(k.paste, text[:min(len(text), room)]...)
	k.pending = rest
	if ended {
		k.endPaste()
	}
	return ended
}

func (k *keys) endPaste() {
	text := string(k.paste)
	if len(text) > maxPaste {
		text = text[:maxPaste] + pasteCut
	}
	// Within the marks the editor takes a line of any length.
	k.ready = append(k.ready, pasteStart+fold(text)+pasteEnd...)
	k.pasting, k.paste = false, nil
}

// fold makes one line of a text, without what would steer the terminal.
func fold(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, ""))
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return lineBreak
		case r == '\t':
			return tabStop
		case r == utf8.RuneError || unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
}
