package plan

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// quote is a mark that opens a string: its size, and the mark that closes it.
type quote struct {
	size int
	end  string
}

// quoteAt returns the opening quote at pos of text; its size is 0 for none.
func quoteAt(text string, pos int) quote {
	if pos >= len(text) {
		return quote{}
	}
	switch text[pos] {
	case '"':
		return quote{1, `"`}
	case '\'':
		return quote{1, `'`}
	case 0xE2, 0xEF: // the first byte of the marks below
		return wideQuoteAt(text[pos:])
	}
	return quote{}
}

// wideQuoteAt returns the typographic opening quote that rest begins with.
func wideQuoteAt(rest string) quote {
	switch mark, size := utf8.DecodeRuneInString(rest); mark {
	case '“', '”', '„', '‟':
		return quote{size, "”"}
	case '‘', '’':
		return quote{size, "’"}
	case '＂':
		return quote{size, "＂"}
	}
	return quote{}
}

// stringValue reads a string, or several that are joined with plus signs.
func (r *reader) stringValue() bool {
	if quoteAt(r.text, r.pos).size == 0 {
		return r.breaks("a value")
	}
	text, ok := r.scanString(r.guess)
	if !ok || !r.space() {
		return false
	}
	if r.at('+') {
		return r.joinStrings(text)
	}
	r.push(stringNode, text)
	return true
}

// joinStrings reads what is joined to a first string with plus signs.
func (r *reader) joinStrings(first string) bool {
	var all strings.Builder
	all.WriteString(first)
	for r.take('+') {
		if !r.space() {
			return false
		}
		if quoteAt(r.text, r.pos).size == 0 {
			return r.breaks("a string behind +")
		}
		next, ok := r.scanString(r.guess)
		if !ok || !r.space() {
			return false
		}
		all.WriteString(next)
	}
	r.done |= joinedStrings
	r.push(stringNode, all.String())
	return true
}

// scanString steps over a string and returns its contents: a piece of the text
// when nothing in it is escaped. With guess set, a quote ends the string only
// where the structure goes on behind it.
func (r *reader) scanString(guess bool) (string, bool) {
	q := quoteAt(r.text, r.pos)
	if q.end != `"` {
		r.done |= repairedQuotes
	}
	r.pos += q.size
	start := r.pos
	var unescaped []byte // what was read before start, once there was an escape
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == '\\':
			unescaped = append(unescaped, r.text[start:r.pos]...)
			unescaped = r.escape(unescaped)
			start = r.pos
		case c == q.end[0] && strings.HasPrefix(r.text[r.pos:], q.end):
			end := r.pos
			r.pos += len(q.end)
			if guess && !r.structureFollows() {
				r.done |= guessedStrings
				continue
			}
			if unescaped == nil {
				return r.text[start:end], true
			}
			return string(append(unescaped, r.text[start:end]...)), true
		case c < ' ':
			r.done |= repairedControls
			r.pos++
		default:
			r.pos++
		}
	}
	return "", r.fail(cut, "the end of a string")
}

// escape reads the escape sequence at pos and appends what it stands for. One
// that JSON does not know is taken as it is, backslash included.
func (r *reader) escape(to []byte) []byte {
	if r.pos+1 >= len(r.text) {
		r.pos = len(r.text)
		return to
	}
	c := r.text[r.pos+1]
	if c == 'u' {
		return r.unicodeEscape(to)
	}
	r.pos += 2
	switch c {
	case '"', '\\', '/':
		return append(to, c)
	case 'b':
		return append(to, '\b')
	case 'f':
		return append(to, '\f')
	case 'n':
		return append(to, '\n')
	case 'r':
		return append(to, '\r')
	case 't':
		return append(to, '\t')
	case '\'':
		r.done |= repairedEscapes
		return append(to, c)
	}
	r.done |= repairedEscapes
	if c >= utf8.RuneSelf || c < ' ' {
		r.pos-- // read on at the character itself
		return append(to, '\\')
	}
	return append(to, '\\', c)
}

// unicodeEscape reads \uXXXX, or the two of a surrogate pair. Half a pair stands
// for U+FFFD: it is no character.
func (r *reader) unicodeEscape(to []byte) []byte {
	first, ok := hex4(r.text, r.pos)
	if !ok {
		r.done |= repairedEscapes
		r.pos += 2
		return append(to, '\\', 'u')
	}
	r.pos += 6
	if !utf16.IsSurrogate(first) {
		return utf8.AppendRune(to, first)
	}
	second, ok := hex4(r.text, r.pos)
	if pair := utf16.DecodeRune(first, second); ok && pair != utf8.RuneError {
		r.pos += 6
		return utf8.AppendRune(to, pair)
	}
	return utf8.AppendRune(to, utf8.RuneError)
}

// hex4 reads the \uXXXX at pos.
func hex4(text string, pos int) (rune, bool) {
	if pos+6 > len(text) || text[pos] != '\\' || text[pos+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[pos+2:pos+6], 16, 16)
	return rune(n), err == nil
}

// structureFollows reports whether what follows a quote shows that it closes the
// text of a SAY: the command ends, and then the list or its next command, or a
// key that commands have.
func (r *reader) structureFollows() bool {
	rest := strings.TrimLeft(r.text[r.pos:], " \t\r\n")
	if rest == "" {
		return false
	}
	switch after := strings.TrimLeft(rest[1:], " \t\r\n"); rest[0] {
	case '}':
		return after == "" || after[0] == ']' || after[0] == '}' ||
			after[0] == ',' && strings.HasPrefix(strings.TrimLeft(after[1:], " \t\r\n"), "{")
	case ',':
		return knownKeyAt(after)
	}
	return false
}

// knownKeyAt reports whether text begins with a key that plans and commands have,
// in quotes, and its colon.
func knownKeyAt(text string) bool {
	q := quoteAt(text, 0)
	if q.size == 0 {
		return false
	}
	text = text[q.size:]
	for _, key := range [...]string{"type", "response", "commands"} {
		if rest, ok := strings.CutPrefix(text, key); ok {
			rest, ok = strings.CutPrefix(rest, q.end)
			return ok && strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), ":")
		}
	}
	return false
}
