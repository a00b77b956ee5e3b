package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth is how deep a value may nest.
const maxDepth = 256

// fieldsOf are the members of an object by their keys in lower case. One key with two
// different values is a fault: two readers of the plan could disagree on it.
func fieldsOf(object map[string]any) (map[string]any, *Fault) {
	fields := make(map[string]any, len(object))
	for key, value := range object {
		low := strings.ToLower(key)
		if first, twice := fields[low]; twice && !reflect.DeepEqual(first, value) {
			return nil, InvalidPlan.Faultf("%q is given twice with different values", low)
		}
		fields[low] = value
	}
	return fields, nil
}

// reader reads JSON, token by token, in linear time. Where strict JSON ends it repairs
// what has one meaning only, and notes it: the style of quotes, commas, comments, literals
// of Python, wide spaces, raw control characters. It never guesses where a string ends.
// Values are as encoding/json makes them, with json.Number for numbers.
type reader struct {
	text  string
	pos   int
	depth int
	steps int // bytes read in all

	notes    notes  // what was repaired in the value that was read last
	unclosed bool   // the last } of it was missing
	torn     bool   // a comment in it may be part of a string
	cut      bool   // the text ends within it
	twice    bool   // a key in it has two values
	want     string // what was expected where it breaks
}

// notes are codes of repairs.
type notes []string

func (n *notes) add(codes ...string) {
	for _, code := range codes {
		if !slices.Contains(*n, code) {
			*n = append(*n, code)
		}
	}
}

// read reads the value at pos and reports whether there was one.
func (r *reader) read(pos int) (value any, ok bool) {
	*r = reader{text: r.text, pos: pos, steps: r.steps}
	value, ok = r.value(false)
	r.steps += r.pos - pos + 1
	return value, ok
}

// fail says what was expected at pos.
func (r *reader) fail(want string) bool {
	if r.want == "" {
		r.want, r.cut = want, r.ended()
	}
	return false
}

// ended reports whether the text, or the code fence around the value, ends at pos.
func (r *reader) ended() bool {
	rest := r.text[r.pos:]
	fence := strings.HasPrefix(rest, "```") && strings.HasSuffix(strings.TrimRight(r.text[:r.pos], " \t"), "\n")
	return rest == "" || fence || endTokenAt(rest) > 0
}

// value reads a value. mayBeWord allows a bare word, as in {type: DO}.
func (r *reader) value(mayBeWord bool) (any, bool) {
	if !r.space() {
		return nil, false
	}
	if r.pos == len(r.text) {
		return nil, r.fail("a value")
	}
	switch c := r.text[r.pos]; {
	case (c == '{' || c == '[') && r.depth == maxDepth:
		return nil, r.fail("less nesting")
	case c == '{':
		object := map[string]any{}
		return object, r.elements("}", func(comma bool) bool { return r.member(object, comma) })
	case c == '[':
		list := []any{}
		ok := r.elements("]", func(comma bool) bool { return r.item(&list, comma) })
		return list, ok
	case closingQuote(r.text[r.pos:]) != "":
		return r.string()
	case c == '-' || c == '+' || c == '.' || isDigit(c):
		return r.number()
	case isWordStart(c):
		return r.word(mayBeWord)
	}
	return nil, r.fail("a value")
}

// elements reads what stands between two brackets, up to the closing one. comma says
// whether a comma stands before an element, or nothing.
func (r *reader) elements(end string, element func(comma bool) bool) bool {
	r.pos++
	r.depth++
	defer func() { r.depth-- }()
	comma := true
	for n := 0; ; n++ {
		switch {
		case !r.space():
			return false
		case r.take(end):
			if comma && n > 0 {
				r.notes.add("commas")
			}
			return true
		case !comma && end == "}" && r.lastBrace():
			return true
		case !element(comma) || !r.space():
			return false
		}
		comma = r.take(",", "，")
	}
}

// lastBrace accepts the end of the text in place of the } that closes the outermost
// object. Whether the object may be used then is for the caller to decide.
func (r *reader) lastBrace() bool {
	before := strings.TrimRight(r.text[:r.pos], " \t\r\n")
	if r.depth != 1 || !r.ended() || strings.IndexByte(`}]"'`, before[len(before)-1]) < 0 {
		return false
	}
	r.unclosed = true
	r.notes.add("closing_brace")
	return true
}

// member reads a key and its value. A missing comma is repaired where quotes leave no
// doubt.
func (r *reader) member(object map[string]any, comma bool) bool {
	key, ok, bare := "", true, isWordStart(r.next())
	switch {
	case bare && !comma:
		return r.fail("a comma")
	case bare:
		key = r.scanWord()
		r.notes.add("bare_words")
	case closingQuote(r.text[r.pos:]) == "":
		return r.fail("a key in double quotes")
	default:
		key, ok = r.string()
	}
	if !ok || !r.space() {
		return false
	}
	if !comma {
		r.notes.add("commas")
	}
	if !r.take(":", "：") {
		if bare || !comma || closingQuote(r.text[r.pos:]) == "" && r.next() != '{' && r.next() != '[' {
			return r.fail("a colon")
		}
		r.notes.add("colons")
	}
	value, ok := r.value(strings.EqualFold(key, "type") || strings.EqualFold(key, "action"))
	if !ok {
		return false
	}
	first, twice := object[key]
	if r.twice = twice && !reflect.DeepEqual(first, value); r.twice {
		return r.fail(fmt.Sprintf("the key %q once: it is given twice with different values", key))
	}
	if twice {
		r.notes.add("equal_keys")
	}
	object[key] = value
	return true
}

func (r *reader) item(list *[]any, comma bool) bool {
	if !comma {
		spaced := strings.IndexByte(" \t\r\n", r.text[r.pos-1]) >= 0
		if c := r.next(); c != '{' && c != '[' && !(spaced && closingQuote(r.text[r.pos:]) != "") {
			return r.fail("a comma or a closing bracket")
		}
		r.notes.add("commas")
	}
	value, ok := r.value(false)
	*list = append(*list, value)
	return ok
}

// next is the byte at pos; 0 at the end of the text.
func (r *reader) next() byte {
	if r.pos == len(r.text) {
		return 0
	}
	return r.text[r.pos]
}

// take steps over one of the marks. All but the first are wide forms of it.
func (r *reader) take(marks ...string) bool {
	for i, mark := range marks {
		if strings.HasPrefix(r.text[r.pos:], mark) {
			r.pos += len(mark)
			if i > 0 {
				r.notes.add("commas")
			}
			return true
		}
	}
	return false
}

// literals are those of JSON and of Python.
var literals = map[string]any{
	"true": true, "false": false, "null": nil,
	"True": true, "False": false, "None": nil, "undefined": nil,
}

// word reads a literal, or a bare word.
func (r *reader) word(mayBeWord bool) (any, bool) {
	start := r.pos
	word := r.scanWord()
	value, known := literals[word]
	switch {
	case r.pos == len(r.text):
		return nil, r.fail("the rest of a word")
	case known && !json.Valid([]byte(word)):
		r.notes.add("literals")
	case !known && mayBeWord:
		r.notes.add("bare_words")
		return word, true
	case !known:
		r.pos = start
		return nil, r.fail("a value in double quotes")
	}
	return value, true
}

func (r *reader) scanWord() string {
	start := r.pos
	for isWordByte(r.next()) {
		r.pos++
	}
	return r.text[start:r.pos]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$'
}

func isWordByte(c byte) bool { return isWordStart(c) || isDigit(c) || c == '-' || c == '.' }

// number reads a number and keeps its text.
func (r *reader) number() (any, bool) {
	start := r.pos
	for isWordByte(r.next()) || r.next() == '+' {
		r.pos++
	}
	text := r.text[start:r.pos]
	switch {
	case r.pos == len(r.text) && r.depth > 0:
		return nil, r.fail("the rest of a number")
	case !json.Valid([]byte(text)):
		r.pos = start
		return nil, r.fail("a number as JSON writes it")
	}
	return json.Number(text), true
}

// closingQuote is the quote that closes the string which text begins with; "" for none.
func closingQuote(text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	return closingQuotes[first]
}

var closingQuotes = map[rune]string{'"': `"`, '\'': "'", '＂': "＂", '“': "”", '”': "”", '„': "”", '‟': "”", '‘': "’", '’': "’"}

// string reads a string: it writes it as JSON does, and decodes that. An escape that JSON
// does not know is taken as it is, backslash included, but for \'.
func (r *reader) string() (text string, ok bool) {
	end := closingQuote(r.text[r.pos:])
	if end != `"` {
		r.notes.add("quotes")
	}
	_, size := utf8.DecodeRuneInString(r.text[r.pos:])
	r.pos += size
	special := func(c rune) bool { return c < ' ' || c == '\\' || c == '"' || strings.ContainsRune(end, c) }
	if n := strings.IndexFunc(r.text[r.pos:], special); n >= 0 && strings.HasPrefix(r.text[r.pos+n:], end) {
		text = r.text[r.pos : r.pos+n]
		r.pos += n + len(end)
		return text, true
	}
	body := []byte{'"'}
	for r.pos < len(r.text) {
		rest := r.text[r.pos:]
		c, known := rest[0], ""
		if c == '\\' {
			known = escape.FindString(rest[:min(len(rest), len(`\uXXXX`))])
		}
		switch {
		case known != "":
			body = append(body, known...)
			r.pos += len(known)
			continue
		case strings.HasPrefix(rest, end):
			r.pos += len(end)
			return text, json.Unmarshal(append(body, '"'), &text) == nil
		case strings.HasPrefix(rest, `\'`):
			r.notes.add("escapes")
			body = append(body, '\'')
			r.pos++
		case c == '\\':
			r.notes.add("escapes")
			body = append(body, `\\`...)
		case c == '"':
			body = append(body, `\"`...)
		case c < ' ':
			r.notes.add("control_characters")
			body = fmt.Appendf(body, `\u%04x`, c)
		default:
			body = append(body, c)
		}
		r.pos++
	}
	return "", r.fail("the end of a string")
}

// escape matches the escape sequences of JSON.
var escape = regexp.MustCompile(`^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})`)

// space steps over white space and comments. It fails on a comment that stands for
// something left out.
func (r *reader) space() bool {
	for {
		rest := r.text[r.pos:]
		c, size := utf8.DecodeRuneInString(rest)
		switch {
		case c == '#':
			if !r.comment(1, "\n") {
				return false
			}
		case strings.HasPrefix(rest, "//"):
			if !r.comment(2, "\n") {
				return false
			}
		case strings.HasPrefix(rest, "/*"):
			if !r.comment(2, "*/") {
				return false
			}
		case rest == "" || !isBlank(c):
			return true
		default:
			if !strings.ContainsRune(" \n\t\r", c) {
				r.notes.add("spaces")
			}
			r.pos += size
		}
	}
}

// comment steps over a comment, whose opening mark has that size. One of dots says that something was left out: nobody knows
// what. In a plan with a DO a comment has to close what it opens, else it may be no comment
// but the rest of a string.
func (r *reader) comment(mark int, end string) bool {
	body, behind, _ := strings.Cut(r.text[r.pos+mark:], end)
	text := strings.TrimLeft(body, "* \t")
	if strings.HasPrefix(text, "...") || strings.HasPrefix(text, "…") {
		return r.fail("every command written out, nothing left out")
	}
	r.torn = r.torn || isTorn(body)
	r.notes.add("comments")
	r.pos = len(r.text) - len(behind)
	return true
}

// isTorn reports whether the marks in a text open what they do not close, or close what
// they did not open.
func isTorn(text string) bool {
	var m marks
	m.scan(text)
	return !m.none() || m.stray || opensComment(text)
}

// isOpen reports whether the marks in a text open what they do not close.
func isOpen(text string) bool {
	var m marks
	m.scan(text)
	return !m.none() || opensComment(text)
}

func opensComment(text string) bool {
	return strings.LastIndex(text, "/*") > strings.LastIndex(text, "*/")
}

// isBlank reports whether c is white space of any kind, or has no width.
func isBlank(c rune) bool { return unicode.IsSpace(c) || isInvisible(c) }

// isInvisible reports whether c has no width and no meaning outside of a word.
func isInvisible(c rune) bool {
	return c == '\ufeff' || '\u200b' <= c && c <= '\u200f' || c == '\u2060'
}

// marks follows which quotes, braces and brackets a text opens and does not close, by the
// rule in the documentation of the package. In doubt, something is open.
type marks struct {
	open  []mark
	count [markKinds]int // of the marks in open, by kind
	torn  bool           // something was closed badly: it stays open for good
	stray bool           // a brace or bracket closes nothing
}

type mark struct {
	sign rune
	kind int
}

const markKinds = 7

// kindsOfMarks are the marks that close each other, and closers which closes which.
var (
	kindsOfMarks = [markKinds]string{"{}", "[]", `"＂`, "'‘’", "“”„‟", "«»", "「」『』"}
	closers      = map[rune]string{'“': "”", '„': "“”", '‟': "“”", '”': "”", '«': "»", '»': "«", '「': "」", '『': "』"}
)

const brace, square, double, single = 0, 1, 2, 3

func kindOfMark(sign rune) int {
	if sign < utf8.RuneSelf {
		return strings.IndexRune("{[\"'", sign)
	}
	return slices.IndexFunc(kindsOfMarks[:], func(kind string) bool { return strings.ContainsRune(kind, sign) })
}

func isQuote(sign rune) bool { return kindOfMark(sign) >= double }

// none reports whether nothing is open.
func (m *marks) none() bool { return len(m.open) == 0 && !m.torn }

func (m *marks) scan(text string) {
	for i := 0; i < len(text); {
		i += m.step(text, i)
	}
}

// step looks at the character at i and returns its size.
func (m *marks) step(text string, i int) int {
	sign, size := rune(text[i]), 1
	if sign >= utf8.RuneSelf {
		sign, size = utf8.DecodeRuneInString(text[i:])
	}
	switch kind := kindOfMark(sign); {
	case sign == '}':
		m.shut(brace)
	case sign == ']':
		m.shut(square)
	case kind < 0:
	case kind >= double:
		m.quote(sign, kind, text[:i], text[i+size:])
	default:
		m.push(mark{sign, kind})
	}
	return size
}

// shut closes a brace or a bracket. One that closes nothing is left from before.
func (m *marks) shut(kind int) {
	switch {
	case len(m.open) == 0:
		m.stray = true
	case m.top().kind == kind:
		m.pop()
	default:
		m.torn = true
	}
}

// quote opens or closes a quote, unless it is an apostrophe or stands for inches.
func (m *marks) quote(sign rune, kind int, before, behind string) {
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(behind)
	isOpen := m.count[kind] > 0
	switch {
	case kind == single && (!isOpen && isAlphanumeric(last) || isOpen && isAlphanumeric(next)):
		return // Here's
	case sign == '"' && !isOpen && '0' <= last && last <= '9' && (isBlank(next) || strings.ContainsRune(".,;:!?)-", next)):
		return // 5" wide
	case last == '\\' || isOpen && m.top().kind != kind:
		m.torn = true
	case isOpen && (kind == double || kind == single || strings.ContainsRune(closers[m.top().sign], sign)):
		m.pop()
	default:
		m.push(mark{sign, kind})
	}
}

func (m *marks) top() mark { return m.open[len(m.open)-1] }

func (m *marks) push(one mark) {
	m.open = append(m.open, one)
	m.count[one.kind]++
}

func (m *marks) pop() {
	m.count[m.top().kind]--
	m.open = m.open[:len(m.open)-1]
}

func isAlphanumeric(c rune) bool {
	return c != utf8.RuneError && (unicode.IsLetter(c) || unicode.IsDigit(c))
}
