package plan

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep a value may nest.
const maxDepth = 256

// reader reads one JSON value at a time, token by token, in linear time. What is
// strict JSON it reads as that; where strict JSON ends, it repairs what can be
// repaired without loss and notes it: the style of quotes, commas, colons,
// comments, foreign literals and spaces, raw control characters. Where a string
// ends is never in doubt, unless guess is set.
type reader struct {
	text  string
	pos   int
	depth int
	tape  tape
	done  repairs

	guess    bool // look for the end of a string by what follows its quotes
	unclosed bool // the last } of the value read was missing
	torn     bool // a comment in the value read may be part of a string, see isTorn
	steps    int  // bytes read in all, for the caller's budget

	fault fault
	want  string // what was expected where a broken value breaks
}

// fault says why a value could not be read.
type fault uint8

const (
	noFault fault = iota
	cut           // the text ends within the value
	broken        // the value breaks the rules at pos
)

// place says what may stand where a value is read.
type place uint8

const (
	anyValue  place = iota
	nameValue       // a type or an action: may be a bare word
)

// read reads the value at pos and reports whether there was one. The nodes are
// added to the tape; a failed read leaves there what it had read.
func (r *reader) read(pos int) bool {
	r.pos, r.depth, r.fault, r.want, r.unclosed, r.torn = pos, 0, noFault, "", false, false
	ok := r.value(anyValue)
	r.steps += r.pos - pos + 1
	return ok
}

func (r *reader) fail(f fault, want string) bool {
	if r.fault == noFault {
		r.fault, r.want = f, want
	}
	return false
}

// breaks fails on what stands at pos: at the end of the text the value is cut,
// else it is broken.
func (r *reader) breaks(want string) bool {
	if r.fault == noFault && r.ended() {
		return r.fail(cut, want)
	}
	return r.fail(broken, want)
}

func (r *reader) value(p place) bool {
	if !r.space() {
		return false
	}
	if r.pos == len(r.text) {
		return r.fail(cut, "a value")
	}
	switch c := r.text[r.pos]; {
	case c == '{':
		return r.object()
	case c == '[':
		return r.array()
	case c == '"', c == '\'', c >= utf8.RuneSelf:
		return r.stringValue()
	case c == '-', c == '+', c == '.', '0' <= c && c <= '9':
		return r.number()
	case isWordStart(c):
		return r.word(p)
	default:
		return r.breaks("a value")
	}
}

// enter adds a container to the tape and steps over its bracket.
func (r *reader) enter(kind nodeKind) (at int, ok bool) {
	if r.depth == maxDepth {
		return 0, r.fail(broken, "less nesting")
	}
	r.depth++
	r.pos++
	r.add(node{kind: kind})
	return len(r.tape) - 1, true
}

// leave closes the container at.
func (r *reader) leave(at int) bool {
	r.depth--
	r.tape[at].end = int32(len(r.tape))
	return true
}

func (r *reader) object() bool {
	at, ok := r.enter(objectNode)
	if !ok {
		return false
	}
	for comma := true; ; {
		if !r.space() {
			return false
		}
		if r.take('}') {
			if comma && !r.tape.openEmpty(at) {
				r.done |= repairedCommas
			}
			return r.leave(at)
		}
		if !comma && r.lastBrace() {
			return r.leave(at)
		}
		if !r.member(comma) {
			return false
		}
		if comma, ok = r.comma(); !ok {
			return false
		}
	}
}

// openEmpty reports whether the container at, still open, holds nothing yet.
func (t tape) openEmpty(at int) bool { return at == len(t)-1 }

// lastBrace accepts the end of the text in place of the } that closes the
// outermost object, where the value before it is certainly complete. Whether the
// object may be used then is for the caller to decide.
func (r *reader) lastBrace() bool {
	if r.depth != 1 || !r.ended() {
		return false
	}
	switch before := strings.TrimRight(r.text[:r.pos], " \t\r\n"); before[len(before)-1] {
	case '}', ']', '"', '\'':
		r.unclosed = true
		r.done |= addedBrace
		return true
	}
	return false
}

// member reads a key and its value. Without a comma before it, the key has to be
// a string and the colon has to be there, so that no string is taken apart.
func (r *reader) member(comma bool) bool {
	start := r.pos
	bare, ok := r.key()
	if !ok {
		return false
	}
	if !comma {
		if bare {
			r.pos = start
			return r.fail(broken, "a comma")
		}
		r.done |= repairedCommas
	}
	key := r.tape[len(r.tape)-1].text
	if !r.colon(comma && !bare) {
		return false
	}
	if strings.EqualFold(key, "type") || strings.EqualFold(key, "action") {
		return r.value(nameValue)
	}
	return r.value(anyValue)
}

// key reads a key: a string or a bare word.
func (r *reader) key() (bare, ok bool) {
	if r.pos < len(r.text) && isWordStart(r.text[r.pos]) {
		word := r.scanWord()
		r.push(wordNode, word)
		r.done |= quotedWords
		return true, true
	}
	if quoteAt(r.text, r.pos).size == 0 {
		return false, r.breaks("a key in double quotes")
	}
	text, ok := r.scanString(false)
	if ok {
		r.push(stringNode, text)
	}
	return false, ok
}

// colon steps over the colon behind a key. It may be missing where the key and
// the value are both in quotes, or the value is a container.
func (r *reader) colon(mayMiss bool) bool {
	if !r.space() {
		return false
	}
	switch {
	case r.take(':'):
		return true
	case r.takeWide("："):
		return true
	case mayMiss && (quoteAt(r.text, r.pos).size > 0 || r.at('{') || r.at('[')):
		r.done |= repairedColons
		return true
	default:
		return r.breaks("a colon")
	}
}

func (r *reader) array() bool {
	at, ok := r.enter(arrayNode)
	if !ok {
		return false
	}
	for comma := true; ; {
		if !r.space() {
			return false
		}
		if r.take(']') {
			if comma && !r.tape.openEmpty(at) {
				r.done |= repairedCommas
			}
			return r.leave(at)
		}
		if !comma && !r.mayMissComma() {
			return r.breaks("a comma or a closing bracket")
		}
		if !r.value(anyValue) {
			return false
		}
		if comma, ok = r.comma(); !ok {
			return false
		}
	}
}

// comma steps over the comma behind a value, and reports whether there was one.
func (r *reader) comma() (comma, ok bool) {
	if !r.space() {
		return false, false
	}
	return r.take(',') || r.takeWide("，"), true
}

// mayMissComma accepts a container, or a string after a space, where a comma is
// missing between two elements.
func (r *reader) mayMissComma() bool {
	spaced := strings.IndexByte(" \t\r\n", r.text[r.pos-1]) >= 0
	if r.at('{') || r.at('[') || spaced && quoteAt(r.text, r.pos).size > 0 {
		r.done |= repairedCommas
		return true
	}
	return false
}

func (r *reader) push(kind nodeKind, text string) {
	r.add(node{kind: kind, text: text, end: int32(len(r.tape) + 1)})
}

// add puts a node on the tape, which doubles when it is full: append grows long
// slices by less, and would copy them more often.
func (r *reader) add(n node) {
	if len(r.tape) == cap(r.tape) {
		r.tape = slices.Grow(r.tape, max(len(r.tape), 8))
	}
	r.tape = append(r.tape, n)
}

func (r *reader) at(c byte) bool { return r.pos < len(r.text) && r.text[r.pos] == c }

func (r *reader) take(c byte) bool {
	if r.at(c) {
		r.pos++
		return true
	}
	return false
}

// takeWide steps over the full-width form of a mark.
func (r *reader) takeWide(mark string) bool {
	if strings.HasPrefix(r.text[r.pos:], mark) {
		r.pos += len(mark)
		r.done |= repairedCommas
		return true
	}
	return false
}

// ended reports whether the text ends at pos, between two tokens: there is no
// more of it, or the fence around it closes, or the model's turn ends.
func (r *reader) ended() bool {
	rest := r.text[r.pos:]
	if rest == "" {
		return true
	}
	switch rest[0] {
	case '`', '~':
		return hasAnyPrefix(rest, "```", "~~~") && strings.HasSuffix(strings.TrimRight(r.text[:r.pos], " \t"), "\n")
	case '<':
		return endTokenAt(rest) > 0
	}
	return false
}
