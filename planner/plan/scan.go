package plan

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep a value may nest.
const maxDepth = 256

// value is one JSON value. An object keeps the order of its members, and its duplicates.
type value struct {
	kind    valueKind
	text    string // of a string or a bare word; a number as it is written
	members []member
	items   []value
}

type member struct {
	key   string
	value value
}

type valueKind string

// The kinds of values, by the names that a model knows.
const (
	objectValue  valueKind = "an object"
	arrayValue   valueKind = "an array"
	stringValue  valueKind = "a string"
	numberValue  valueKind = "a number"
	booleanValue valueKind = "a boolean"
	nullValue    valueKind = "null"
	wordValue    valueKind = "a word" // without quotes, where one is allowed
)

func (v *value) isText() bool { return v.kind == stringValue || v.kind == wordValue }

// fields are the members of an object by their keys in lower case. One key with two
// different values is a fault: two readers of the plan could disagree on it.
func (v *value) fields() (map[string]*value, *Fault) {
	fields := make(map[string]*value, len(v.members))
	for i := range v.members {
		m := &v.members[i]
		key := strings.ToLower(m.key)
		if first := fields[key]; first != nil && !first.equal(&m.value) {
			return nil, Faultf(InvalidPlan, "%q is given twice with different values", key)
		}
		fields[key] = &m.value
	}
	return fields, nil
}

// equal compares values as they are written: the order of keys counts.
func (v *value) equal(other *value) bool {
	if v.kind != other.kind || v.text != other.text {
		return false
	}
	return slices.EqualFunc(v.items, other.items, func(a, b value) bool { return a.equal(&b) }) &&
		slices.EqualFunc(v.members, other.members, func(a, b member) bool { return a.key == b.key && a.value.equal(&b.value) })
}

// decoded is the Go value: maps, slices, strings, booleans, nil, and json.Number.
func (v *value) decoded() (any, *Fault) {
	switch v.kind {
	case objectValue:
		return v.object()
	case arrayValue:
		list := make([]any, len(v.items))
		for i := range v.items {
			item, fault := v.items[i].decoded()
			if fault != nil {
				return nil, fault
			}
			list[i] = item
		}
		return list, nil
	case numberValue:
		return json.Number(v.text), nil
	case booleanValue:
		return v.text == "true", nil
	case nullValue:
		return nil, nil
	default:
		return v.text, nil
	}
}

func (v *value) object() (map[string]any, *Fault) {
	object := make(map[string]any, len(v.members))
	first := make(map[string]*value, len(v.members))
	for i := range v.members {
		m := &v.members[i]
		if before := first[m.key]; before != nil {
			if !before.equal(&m.value) {
				return nil, Faultf(InvalidPlan, "the key %q is given twice with different values", m.key)
			}
			continue
		}
		decoded, fault := m.value.decoded()
		if fault != nil {
			return nil, fault
		}
		object[m.key], first[m.key] = decoded, &m.value
	}
	return object, nil
}

// reader reads JSON, token by token, in linear time. Where strict JSON ends it repairs
// what has one meaning only, and notes it: the style of quotes, commas, colons, comments,
// literals of Python, wide spaces, raw control characters. It never guesses where a string
// ends.
type reader struct {
	text  string
	pos   int
	depth int
	steps int // bytes read in all

	notes    notes  // what was repaired in the value that was read last
	unclosed bool   // the last } of it was missing
	torn     bool   // a comment in it may be part of a string
	cut      bool   // the text ends within it
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
func (r *reader) read(pos int) (v value, ok bool) {
	*r = reader{text: r.text, pos: pos, steps: r.steps}
	ok = r.value(&v, false)
	r.steps += r.pos - pos + 1
	return v, ok
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
func (r *reader) value(v *value, mayBeWord bool) bool {
	if !r.space() {
		return false
	}
	if r.pos == len(r.text) {
		return r.fail("a value")
	}
	switch c := r.text[r.pos]; {
	case (c == '{' || c == '[') && r.depth == maxDepth:
		return r.fail("less nesting")
	case c == '{':
		return r.object(v)
	case c == '[':
		return r.array(v)
	case closingQuote(r.text[r.pos:]) != "":
		return r.strings(v)
	case c == '-' || c == '+' || c == '.' || isDigit(c):
		return r.number(v)
	case isWordStart(c):
		return r.word(v, mayBeWord)
	}
	return r.fail("a value")
}

func (r *reader) object(v *value) bool {
	v.kind = objectValue
	r.pos++
	r.depth++
	defer func() { r.depth-- }()
	for comma := true; ; comma = r.take(",", "，", "commas") {
		if !r.space() {
			return false
		}
		if r.take("}", "", "") {
			if comma && len(v.members) > 0 {
				r.notes.add("commas")
			}
			return true
		}
		if !comma && r.lastBrace() {
			return true
		}
		var m member
		if !r.member(&m, comma) {
			return false
		}
		v.members = append(v.members, m)
		if !r.space() {
			return false
		}
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

// member reads a key and its value. A missing comma or colon is repaired where quotes or
// brackets leave no doubt.
func (r *reader) member(m *member, comma bool) bool {
	bare := r.pos < len(r.text) && isWordStart(r.text[r.pos])
	switch {
	case bare && !comma:
		return r.fail("a comma")
	case bare:
		m.key = r.scanWord()
		r.notes.add("bare_words")
	case closingQuote(r.text[r.pos:]) == "":
		return r.fail("a key in double quotes")
	default:
		var ok bool
		if m.key, ok = r.string(); !ok {
			return false
		}
	}
	if !comma {
		r.notes.add("commas")
	}
	if !r.space() {
		return false
	}
	if !r.take(":", "：", "commas") {
		rest := r.text[r.pos:]
		if !comma || bare || closingQuote(rest) == "" && !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, "[") {
			return r.fail("a colon")
		}
		r.notes.add("colons")
	}
	return r.value(&m.value, strings.EqualFold(m.key, "type") || strings.EqualFold(m.key, "action"))
}

func (r *reader) array(v *value) bool {
	v.kind = arrayValue
	r.pos++
	r.depth++
	defer func() { r.depth-- }()
	for comma := true; ; comma = r.take(",", "，", "commas") {
		if !r.space() {
			return false
		}
		if r.take("]", "", "") {
			if comma && len(v.items) > 0 {
				r.notes.add("commas")
			}
			return true
		}
		if !comma {
			rest, before := r.text[r.pos:], r.text[r.pos-1]
			spaced := before == ' ' || before == '\t' || before == '\r' || before == '\n'
			if !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, "[") && !(spaced && closingQuote(rest) != "") {
				return r.fail("a comma or a closing bracket")
			}
			r.notes.add("commas")
		}
		var item value
		if !r.value(&item, false) {
			return false
		}
		v.items = append(v.items, item)
		if !r.space() {
			return false
		}
	}
}

// take steps over a mark, or over its wide form, which is noted.
func (r *reader) take(mark, wide, code string) bool {
	rest := r.text[r.pos:]
	switch {
	case strings.HasPrefix(rest, mark):
		r.pos += len(mark)
	case wide != "" && strings.HasPrefix(rest, wide):
		r.pos += len(wide)
		r.notes.add(code)
	default:
		return false
	}
	return true
}

// word reads a literal, of JSON or of Python, or a bare word.
func (r *reader) word(v *value, mayBeWord bool) bool {
	start := r.pos
	word := r.scanWord()
	if r.pos == len(r.text) {
		return r.fail("the rest of a word")
	}
	switch word {
	case "true", "True":
		*v = value{kind: booleanValue, text: "true"}
	case "false", "False":
		*v = value{kind: booleanValue, text: "false"}
	case "null", "None", "undefined":
		*v = value{kind: nullValue}
	default:
		if !mayBeWord {
			r.pos = start
			return r.fail("a value in double quotes")
		}
		*v = value{kind: wordValue, text: word}
		r.notes.add("bare_words")
		return true
	}
	if word != "true" && word != "false" && word != "null" {
		r.notes.add("literals")
	}
	return true
}

func (r *reader) scanWord() string {
	start := r.pos
	for r.pos < len(r.text) && isWordByte(r.text[r.pos]) {
		r.pos++
	}
	return r.text[start:r.pos]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$'
}

func isWordByte(c byte) bool { return isWordStart(c) || isDigit(c) || c == '-' || c == '.' }

// number reads a number and keeps its text. A plus sign before it, and a digit that is
// missing beside the point, are repaired.
func (r *reader) number(v *value) bool {
	start := r.pos
	for r.pos < len(r.text) && (isWordByte(r.text[r.pos]) || r.text[r.pos] == '+') {
		r.pos++
	}
	if r.pos == len(r.text) && r.depth > 0 {
		return r.fail("the rest of a number")
	}
	written := r.text[start:r.pos]
	text := strings.TrimPrefix(written, "+")
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	text = strings.TrimSuffix(strings.Replace(text, "-.", "-0.", 1), ".")
	if !json.Valid([]byte(text)) {
		r.pos = start
		return r.fail("a number as JSON writes it")
	}
	if text != written {
		r.notes.add("numbers")
	}
	*v = value{kind: numberValue, text: text}
	return true
}

// strings reads a string, or several that are joined with plus signs.
func (r *reader) strings(v *value) bool {
	*v = value{kind: stringValue}
	var all strings.Builder
	for {
		text, ok := r.string()
		if !ok || !r.space() {
			return false
		}
		if !r.take("+", "", "") {
			if v.text = text; all.Len() > 0 {
				v.text = all.String() + text
			}
			return true
		}
		all.WriteString(text)
		r.notes.add("concatenation")
		if !r.space() {
			return false
		}
		if closingQuote(r.text[r.pos:]) == "" {
			return r.fail("a string behind +")
		}
	}
}

// closingQuote is the quote that closes the string which text begins with; "" for none.
func closingQuote(text string) string {
	switch mark, _ := utf8.DecodeRuneInString(text); mark {
	case '"':
		return `"`
	case '\'':
		return "'"
	case '＂':
		return "＂"
	case '“', '”', '„', '‟':
		return "”"
	case '‘', '’':
		return "’"
	}
	return ""
}

// string reads the contents of a string.
func (r *reader) string() (string, bool) {
	end := closingQuote(r.text[r.pos:])
	if end != `"` {
		r.notes.add("quotes")
	}
	_, size := utf8.DecodeRuneInString(r.text[r.pos:])
	r.pos += size
	start := r.pos
	var unescaped []byte // what was read before start, once there was an escape
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == '\\':
			unescaped = append(unescaped, r.text[start:r.pos]...)
			unescaped = r.escape(unescaped)
			start = r.pos
		case c == end[0] && strings.HasPrefix(r.text[r.pos:], end):
			text := string(append(unescaped, r.text[start:r.pos]...))
			r.pos += len(end)
			return text, true
		default:
			if c < ' ' {
				r.notes.add("control_characters")
			}
			r.pos++
		}
	}
	return "", r.fail("the end of a string")
}

// escapes are the characters that stand for others behind a backslash.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape appends what the escape sequence at pos stands for. One that JSON does not know
// is taken as it is, backslash included.
func (r *reader) escape(to []byte) []byte {
	r.pos++
	if r.pos == len(r.text) {
		return to
	}
	c := r.text[r.pos]
	if c == 'u' {
		if first, ok := hex4(r.text[r.pos:]); ok {
			r.pos += len("uXXXX")
			return r.surrogate(to, first)
		}
	}
	if plain, ok := escapes[c]; ok {
		r.pos++
		return append(to, plain)
	}
	r.notes.add("escapes")
	if c == '\'' {
		r.pos++
		return append(to, c)
	}
	return append(to, '\\') // and read on at the character itself
}

// surrogate appends a character, of which the text may hold the second half. Half a pair
// stands for U+FFFD: it is no character.
func (r *reader) surrogate(to []byte, first rune) []byte {
	if !utf16.IsSurrogate(first) {
		return utf8.AppendRune(to, first)
	}
	if rest, ok := strings.CutPrefix(r.text[r.pos:], `\`); ok {
		second, ok := hex4(rest)
		if pair := utf16.DecodeRune(first, second); ok && pair != utf8.RuneError {
			r.pos += len(`\uXXXX`)
			return utf8.AppendRune(to, pair)
		}
	}
	return utf8.AppendRune(to, utf8.RuneError)
}

// hex4 reads uXXXX.
func hex4(text string) (rune, bool) {
	if len(text) < len("uXXXX") || text[0] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[1:5], 16, 16)
	return rune(n), err == nil
}

// space steps over white space and comments. It fails on a comment that stands for
// something left out.
func (r *reader) space() bool {
	for r.pos < len(r.text) {
		rest := r.text[r.pos:]
		switch {
		case strings.IndexByte(" \n\t\r", rest[0]) >= 0:
			r.pos++
		case strings.HasPrefix(rest, "//"):
			if !r.comment(rest[2:], "\n") {
				return false
			}
		case rest[0] == '#':
			if !r.comment(rest[1:], "\n") {
				return false
			}
		case strings.HasPrefix(rest, "/*"):
			if !r.comment(rest[2:], "*/") {
				return false
			}
		case rest == "/":
			r.pos++ // cut within the mark
		default:
			c, size := utf8.DecodeRuneInString(rest)
			if !isBlank(c) {
				return true
			}
			r.notes.add("spaces")
			r.pos += size
		}
	}
	return true
}

// comment steps over a comment. One of dots says that something was left out: nobody knows
// what. In a plan with a DO a comment has to close what it opens, else it may be no comment
// but the rest of a string.
func (r *reader) comment(rest, end string) bool {
	body, behind, _ := strings.Cut(rest, end)
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
	json bool // in what begins as JSON and cannot be read: no quote can be trusted
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

// none reports whether nothing is open.
func (m *marks) none() bool { return len(m.open) == 0 && !m.torn }

func (m *marks) scan(text string) {
	for i := 0; i < len(text); {
		i += m.step(text, i, false)
	}
}

// step looks at the character at i and returns its size. opensJSON says that it begins JSON
// which cannot be read.
func (m *marks) step(text string, i int, opensJSON bool) int {
	sign, size := rune(text[i]), 1
	if sign >= utf8.RuneSelf {
		sign, size = utf8.DecodeRuneInString(text[i:])
	}
	switch kind := kindOfMark(sign); {
	case sign == '}':
		m.shut(brace)
	case sign == ']':
		m.shut(square)
	case kind < 0, sign == '{' && isEmoticon(text, i):
	case kind >= double:
		m.quote(sign, kind, text[:i], text[i+size:])
	default:
		m.push(mark{sign, kind, opensJSON || len(m.open) > 0 && m.top().json})
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
	case last == '\\' || len(m.open) > 0 && m.top().json || isOpen && m.top().kind != kind:
		m.torn = true
	case isOpen && (kind == double || kind == single || strings.ContainsRune(closers[m.top().sign], sign)):
		m.pop()
	default:
		m.push(mark{sign: sign, kind: kind})
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

// isEmoticon reports whether the brace at i is a mouth, at the end of a line: :-{
func isEmoticon(text string, i int) bool {
	face, found := strings.CutSuffix(text[:i], ":-")
	last, size := utf8.DecodeLastRuneInString(face)
	return found && (size == 0 || isBlank(last)) && strings.HasPrefix(strings.TrimLeft(text[i+1:], " \t\r"), "\n")
}
