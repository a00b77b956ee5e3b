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

const maxDepth = 256 // limits how deep a value may nest

// fieldsOf returns the members of an object by lower-case key: the object itself, if it has no others.
// One key with two different values is
// a fault: two readers of the plan could disagree about it.
func fieldsOf(object map[string]any) (map[string]any, *Fault) {
	lower := true
	for key := range object {
		lower = lower && strings.ToLower(key) == key
	}
	if lower {
		return object, nil
	}
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

// reader reads JSON token by token, in linear time. Beyond strict JSON, it repairs what has only
// one meaning, and records it: quote styles, commas, comments, Python literals, wide spaces, raw
// control characters. It never guesses where a string ends. Values are those of encoding/json, with
// json.Number for numbers.
type reader struct {
	text  string
	pos   int
	depth int
	steps int // bytes read in all

	notes    notes  // repairs in the value read last
	unclosed bool   // its last } was missing
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

func (r *reader) read(pos int) (value any, ok bool) {
	*r = reader{text: r.text, pos: pos, steps: r.steps}
	value, ok = r.value(false)
	r.steps += r.pos - pos + 1
	return value, ok
}

// fail records what was expected at pos.
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
	return rest == "" || fence || endToken.MatchString(head(rest))
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
	}
	return r.word(mayBeWord)
}

// elements reads up to the closing bracket. comma says whether a comma precedes an element.
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

// lastBrace accepts the end of the text instead of the } of the outermost object. The caller
// decides whether to use the object.
func (r *reader) lastBrace() bool {
	before := strings.TrimRight(r.text[:r.pos], " \t\r\n")
	if r.depth != 1 || !r.ended() || strings.IndexByte(`}]"'`, before[len(before)-1]) < 0 {
		return false
	}
	r.unclosed = true
	r.notes.add("closing_brace")
	return true
}

// member reads a key and its value. It repairs a missing comma if quotes leave no doubt.
func (r *reader) member(object map[string]any, comma bool) bool {
	key, ok := bareForm.FindString(r.text[r.pos:]), true
	bare := key != ""
	switch {
	case bare && !comma:
		return r.fail("a comma")
	case bare:
		r.pos += len(key)
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
	if twice && !reflect.DeepEqual(first, value) {
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

// take skips one of the marks. All but the first are wide forms of it.
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

var (
	wordForm = regexp.MustCompile(`^[\w$.+-]+`)
	bareForm = regexp.MustCompile(`^[A-Za-z_$][\w$.-]*`)
)

// word reads a literal, a number, whose text it keeps, or a bare word.
func (r *reader) word(mayBeWord bool) (any, bool) {
	word := wordForm.FindString(r.text[r.pos:])
	value, known := literals[word]
	switch {
	case word != "" && r.pos+len(word) == len(r.text):
		r.pos = len(r.text)
		return nil, r.fail("the rest of a word")
	case known && !json.Valid([]byte(word)):
		r.notes.add("literals")
	case known:
	case json.Valid([]byte(word)):
		value = json.Number(word)
	case mayBeWord && word != "" && bareForm.FindString(word) == word:
		r.notes.add("bare_words")
		value = word
	default:
		return nil, r.fail("a value, texts in double quotes")
	}
	r.pos += len(word)
	return value, true
}

// closingQuote is the quote that closes the string at the start of text; "" if there is no string.
func closingQuote(text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	return closingQuotes[first]
}

var closingQuotes = map[rune]string{'"': `"`, '\'': "'", '＂': "＂", '“': "”", '”': "”", '„': "”", '‟': "”", '‘': "’", '’': "’"}

// string reads a string: it rewrites it as JSON and decodes that. It keeps an escape unknown to
// JSON as it is, including the backslash, except \'.
func (r *reader) string() (text string, ok bool) {
	end := closingQuote(r.text[r.pos:])
	if end != `"` {
		r.notes.add("quotes")
	}
	_, size := utf8.DecodeRuneInString(r.text[r.pos:])
	r.pos += size
	special := func(c rune) bool { return c < ' ' || c == '\\' || c == '"' || strings.ContainsRune(end, c) }
	for body := []byte(nil); ; r.pos++ {
		rest := r.text[r.pos:]
		n := strings.IndexFunc(rest, special)
		if n < 0 {
			r.pos = len(r.text)
			return "", r.fail("the end of a string")
		}
		if body == nil && strings.HasPrefix(rest[n:], end) {
			r.pos += n + len(end)
			return rest[:n], true
		}
		body, rest = append(body, rest[:n]...), rest[n:]
		r.pos += n
		known := escape.FindString(rest[:min(len(rest), len(`\uXXXX`))])
		switch {
		case known != "":
			body = append(body, known...)
			r.pos += len(known) - 1
		case strings.HasPrefix(rest, end):
			r.pos += len(end)
			return text, json.Unmarshal(fmt.Appendf(nil, `"%s"`, body), &text) == nil
		case strings.HasPrefix(rest, `\'`):
			r.notes.add("escapes")
			body = append(body, '\'')
			r.pos++
		case rest[0] == '\\':
			r.notes.add("escapes")
			body = append(body, `\\`...)
		case rest[0] == '"':
			body = append(body, `\"`...)
		default:
			r.notes.add("control_characters")
			body = fmt.Appendf(body, `\u%04x`, rest[0])
		}
	}
}

// escape matches the escape sequences of JSON.
var escape = regexp.MustCompile(`^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})`)

// space skips white space and comments. It fails on a comment that stands for something left out,
// because what was left out is unknown. In a plan with a DO a comment must close what it opens;
// otherwise it may be the rest of a string.
func (r *reader) space() bool {
	for {
		rest := strings.TrimLeftFunc(r.text[r.pos:], isBlank)
		if strings.Trim(r.text[r.pos:len(r.text)-len(rest)], " \n\t\r") != "" {
			r.notes.add("spaces")
		}
		r.pos = len(r.text) - len(rest)
		if rest == "" || rest[0] != '#' && rest[0] != '/' {
			return true
		}
		found := comment.FindStringSubmatch(rest)
		if found == nil {
			return true
		}
		body := found[1] + found[2]
		if leftOut := strings.TrimLeft(body, "* \t"); strings.HasPrefix(leftOut, "...") || strings.HasPrefix(leftOut, "…") {
			return r.fail("every command written out, nothing left out")
		}
		r.torn = r.torn || isTorn(body)
		r.notes.add("comments")
		r.pos += len(found[0])
	}
}

var comment = regexp.MustCompile(`(?s)^(?:(?:#|//)([^\n]*)|/\*(.*?)(?:\*/|$))`)

// isTorn reports whether the marks in a text open what they do not close, or close what they did
// not open.
func isTorn(text string) bool {
	m := marksIn(text)
	return !m.none() || m.stray
}

// isOpen reports whether the marks in a text open what they do not close.
func isOpen(text string) bool {
	m := marksIn(text)
	return !m.none()
}

func marksIn(text string) (m marks) {
	for i := 0; i < len(text); {
		i += m.step(text, i)
	}
	m.torn = m.torn || strings.LastIndex(text, "/*") > strings.LastIndex(text, "*/")
	return m
}

// isBlank reports whether c is any white space or has no width.
func isBlank(c rune) bool { return unicode.IsSpace(c) || isInvisible(c) }

// isInvisible reports whether c has no width and no meaning outside a word.
func isInvisible(c rune) bool {
	return c == '\ufeff' || '\u200b' <= c && c <= '\u200f' || c == '\u2060'
}

// marks tracks which quotes, braces and brackets a text opens and does not close, by the rule in
// the package comment. In doubt, something is open.
type marks struct {
	open  []rune
	torn  bool // something was closed badly: it stays open for good
	stray bool // a brace or bracket closes nothing
}

const maxMarks = 100 // how many open marks are tracked

// kindsOfMarks are the marks that close each other. closers says which closes which.
var (
	kindsOfMarks = [...]string{braces, brackets, `"＂`, singles, "“”„‟", "«»", "「」『』"}
	closers      = map[rune]string{
		'{': "}", '[': "]", '"': `"＂`, '＂': `"＂`, '\'': singles, '‘': singles, '’': singles,
		'“': "”", '„': "“”", '‟': "“”", '”': "”", '«': "»", '»': "«", '「': "」", '『': "』",
	}
)

const braces, brackets, singles = "{}", "[]", "'‘’"

// kindOfMark is the group that a mark belongs to; "" for none.
func kindOfMark(sign rune) string {
	for _, kind := range kindsOfMarks {
		if strings.ContainsRune(kind, sign) {
			return kind
		}
	}
	return ""
}

func isQuote(sign rune) bool {
	kind := kindOfMark(sign)
	return kind != "" && kind != braces && kind != brackets
}

// none reports whether nothing is open.
func (m *marks) none() bool { return len(m.open) == 0 && !m.torn }

// step handles the character at i and returns its size. An apostrophe is not a quote, as in Here's,
// nor is an inch mark, as in 5" wide.
func (m *marks) step(text string, i int) int {
	if c := text[i]; c < utf8.RuneSelf && strings.IndexByte("{}[]\"'", c) < 0 {
		return 1
	}
	sign, size := utf8.DecodeRuneInString(text[i:])
	kind := kindOfMark(sign)
	if kind == "" {
		return size
	}
	top := len(m.open) - 1
	closes := top >= 0 && strings.ContainsRune(closers[m.open[top]], sign)
	if !isQuote(sign) {
		switch {
		case closes:
			m.open = m.open[:top]
		case sign == '{' || sign == '[':
			m.push(sign)
		default: // closes nothing: it is left over from before
			m.stray, m.torn = m.stray || top < 0, m.torn || top >= 0
		}
		return size
	}
	last, _ := utf8.DecodeLastRuneInString(text[:i])
	next, _ := utf8.DecodeRuneInString(text[i+size:])
	isOpen := slices.ContainsFunc(m.open, func(open rune) bool { return strings.ContainsRune(kind, open) })
	switch {
	case kind == singles && (!isOpen && isAlphanumeric(last) || isOpen && isAlphanumeric(next)):
	case sign == '"' && !isOpen && '0' <= last && last <= '9' && (isBlank(next) || strings.ContainsRune(".,;:!?)-", next)):
	case last == '\\' || isOpen && !strings.ContainsRune(kind, m.open[top]):
		m.torn = true
	case closes:
		m.open = m.open[:top]
	default:
		m.push(sign)
	}
	return size
}

func (m *marks) push(sign rune) {
	if len(m.open) == maxMarks {
		m.torn = true
		return
	}
	m.open = append(m.open, sign)
}

func isAlphanumeric(c rune) bool {
	return c != utf8.RuneError && (unicode.IsLetter(c) || unicode.IsDigit(c))
}
