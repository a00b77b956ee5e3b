package plan

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// opened follows what a text opens and does not close, by the rule in the
// documentation of the package: a plan with a DO counts only where nothing is
// open. In doubt, something is.
type opened struct {
	stack   []mark
	count   [markKinds]int // how many marks of each kind are on the stack
	comment bool           // a /* has no */ yet
	never   bool           // something was closed badly
	stray   bool           // a brace or bracket closes nothing
	raw     bool           // JSON is not read, marks alone count
	reader  reader
}

var errInside = Faultf(InvalidPlan, "the plan stands within a quote, brace or bracket that was opened before it; answer with the plan alone, or with plain text")

// mark is a quote, a brace or a bracket that is open.
type mark struct {
	sign rune
	json bool // in what begins as JSON and cannot be read: no quote can be trusted
}

// markKind is a kind of marks that close each other.
type markKind int

const (
	noMark markKind = iota
	braces
	squares
	doubles
	singles
	curlies
	guillemets
	corners
	markKinds
)

func markKindOf(sign rune) markKind {
	switch sign {
	case '{', '}':
		return braces
	case '[', ']':
		return squares
	case '"', '＂':
		return doubles
	case '\'', '‘', '’':
		return singles
	case '“', '”', '„', '‟':
		return curlies
	case '«', '»':
		return guillemets
	case '「', '」', '『', '』':
		return corners
	}
	return noMark
}

// leavesOpen reports whether the marks in a text open what they do not close, and
// isTorn also whether they close what they did not open. A comment that does may
// be no comment, but the rest of a string.
func leavesOpen(text string) bool { o := marksOf(text); return !o.none() }

func isTorn(text string) bool { o := marksOf(text); return !o.none() || o.stray }

func marksOf(text string) opened {
	o := opened{raw: true}
	o.scan(text, 0, len(text))
	return o
}

// none reports whether nothing is open.
func (o *opened) none() bool { return len(o.stack) == 0 && !o.comment && !o.never }

// scan looks at the piece of text from start to end. Pieces follow each other.
func (o *opened) scan(text string, start, end int) {
	for i := start; i < end && !o.never; {
		sign, size := rune(text[i]), 1
		if sign >= utf8.RuneSelf {
			sign, size = utf8.DecodeRuneInString(text[i:end])
		}
		switch kind := markKindOf(sign); {
		case kind == noMark:
			size += o.commentMark(text[i:end])
		case kind > squares:
			o.quote(kind, sign, text[start:i], text[i+size:])
		case sign == '}' || sign == ']':
			o.shut(kind)
		case sign == '{' && isEmoticon(text[start:i], text[i+1:]):
		default:
			size = o.open(kind, sign, text[:end], i)
		}
		i += size
	}
}

// commentMark looks at the mark of a comment, and returns how much of it is left
// behind its first byte.
func (o *opened) commentMark(rest string) int {
	if !o.comment && strings.HasPrefix(rest, "/*") || o.comment && strings.HasPrefix(rest, "*/") {
		o.comment = !o.comment
		return 1
	}
	return 0
}

// open steps over the JSON that begins at pos, or opens its brace or bracket when
// there is none. It returns the size of what it stepped over.
func (o *opened) open(kind markKind, sign rune, text string, pos int) int {
	if len(o.stack) == 0 && !o.raw {
		if o.reader.text = text; o.reader.steps > 8*len(text) {
			o.never = true // read too often
			return 1
		}
		o.reader.tape, o.reader.done = o.reader.tape[:0], 0
		if o.reader.read(pos) && !o.reader.unclosed {
			o.value(text[pos:o.reader.pos], o.reader.done)
			return o.reader.pos - pos
		}
	}
	inside := strings.TrimLeftFunc(text[pos+1:], isBlank)
	json := len(o.stack) > 0 && o.top().json ||
		!o.raw && (quoteAt(inside, 0).size > 0 || kind == braces && keyFollows(inside) || kind == squares && hasAnyPrefix(inside, "{", "["))
	o.push(mark{sign, json}, kind)
	return 1
}

// value steps over JSON that was read with the given repairs: they have to be right
// about where its strings end.
func (o *opened) value(json string, done repairs) {
	o.never = o.never || done&notStrict != 0 && isTorn(json)
}

// shut closes a brace or a bracket. One that closes nothing is left from before.
func (o *opened) shut(kind markKind) {
	switch {
	case len(o.stack) == 0:
		o.stray = true
	case markKindOf(o.top().sign) == kind:
		o.pop(kind)
	default:
		o.never = true
	}
}

// quote opens or closes a quote, unless it is an apostrophe or stands for inches.
func (o *opened) quote(kind markKind, sign rune, before, behind string) {
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(behind)
	isOpen := o.count[kind] > 0
	switch {
	case kind == singles && (!isOpen && isAlphanumeric(last) || isOpen && isAlphanumeric(next)):
		return // Here's
	case sign == '"' && !isOpen && '0' <= last && last <= '9' && (isBlank(next) || strings.ContainsRune(".,;:!?)-", next)):
		return // 5" wide
	case last == '\\' || len(o.stack) > 0 && o.top().json:
		o.never = true
	case isOpen && markKindOf(o.top().sign) != kind:
		o.never = true
	case isOpen && (kind == doubles || kind == singles || closes(o.top().sign, sign)):
		o.pop(kind)
	default:
		o.push(mark{sign: sign}, kind)
	}
}

// closes reports whether one typographic quote closes another, in one language or
// another: “a”, „a“, ”a”, «a», »a«, 「a」.
func closes(open, shut rune) bool {
	switch open {
	case '“':
		return shut == '”'
	case '„', '‟':
		return shut == '“' || shut == '”'
	case '«':
		return shut == '»'
	case '»':
		return shut == '«'
	case '「':
		return shut == '」'
	case '『':
		return shut == '』'
	}
	return shut == '”'
}

func (o *opened) top() mark { return o.stack[len(o.stack)-1] }

func (o *opened) push(m mark, kind markKind) {
	o.stack = append(o.stack, m)
	o.count[kind]++
}

func (o *opened) pop(kind markKind) {
	o.stack = o.stack[:len(o.stack)-1]
	o.count[kind]--
}

func isAlphanumeric(c rune) bool {
	return c != utf8.RuneError && (unicode.IsLetter(c) || unicode.IsDigit(c))
}

// isEmoticon reports whether the brace between before and behind is a mouth, at
// the end of a line: :-{
func isEmoticon(before, behind string) bool {
	face := strings.TrimSuffix(before, ":-")
	last, size := utf8.DecodeLastRuneInString(face)
	return face != before && (size == 0 || isBlank(last)) && strings.HasPrefix(strings.TrimLeft(behind, " \t\r"), "\n")
}
