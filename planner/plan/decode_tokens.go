package plan

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/spelling"
)

// space steps over white space and comments. It fails on a comment that stands
// for something left out.
func (r *reader) space() bool {
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == ' ', c == '\n', c == '\t', c == '\r':
			r.pos++
		case c == '/':
			if !r.comment() {
				return false
			}
		case c == '#':
			r.skipComment(1, "\n")
			if r.fault != noFault {
				return false
			}
		case c >= utf8.RuneSelf, c == '\f', c == '\v':
			size := wideSpaceAt(r.text[r.pos:])
			if size == 0 {
				return true
			}
			r.done |= repairedSpaces
			r.pos += size
		default:
			return true
		}
	}
	return true
}

// comment steps over a comment that begins with a slash.
func (r *reader) comment() bool {
	switch rest := r.text[r.pos:]; {
	case strings.HasPrefix(rest, "//"):
		r.skipComment(2, "\n")
	case strings.HasPrefix(rest, "/*"):
		r.skipComment(2, "*/")
	case rest == "/":
		r.pos++ // cut within the mark
	default:
		return r.fail(broken, "a comma or a closing bracket")
	}
	return r.fault == noFault
}

// skipComment steps over a comment, whose mark has the given size, up to its end.
// A comment of dots says that something was left out: nobody knows what.
func (r *reader) skipComment(mark int, end string) {
	body := r.text[r.pos+mark:]
	size := strings.Index(body, end)
	if size < 0 {
		size = len(body)
		end = ""
	}
	trimmed := strings.TrimLeft(body[:size], " \t*")
	if strings.HasPrefix(trimmed, "...") || strings.HasPrefix(trimmed, "…") {
		r.fail(broken, "every command written out, nothing left out")
		return
	}
	r.torn = r.torn || isTorn(body[:size])
	r.done |= skippedComments
	r.pos += mark + size + len(end)
}

// wideSpaceAt returns the size of the space outside of ASCII, or of the character
// without width, that rest begins with; 0 for none.
func wideSpaceAt(rest string) int {
	c, size := utf8.DecodeRuneInString(rest)
	if unicode.IsSpace(c) || isInvisible(c) {
		return size
	}
	return 0
}

// isInvisible reports whether c has no width and no meaning outside of a word.
func isInvisible(c rune) bool {
	return c == '\ufeff' || '\u200b' <= c && c <= '\u200f' || c == '\u2060'
}

func isWordStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$'
}

// scanWord steps over a bare word.
func (r *reader) scanWord() string {
	start := r.pos
	for r.pos < len(r.text) && isWordByte(r.text[r.pos]) {
		r.pos++
	}
	return r.text[start:r.pos]
}

func isWordByte(c byte) bool {
	return isWordStart(c) || '0' <= c && c <= '9' || c == '-' || c == '.'
}

// word reads a literal, of JSON or of Python, or a bare word where p allows one.
func (r *reader) word(p place) bool {
	start := r.pos
	word := r.scanWord()
	if r.pos == len(r.text) {
		return r.fail(cut, "the rest of "+spelling.Clip(word))
	}
	switch word {
	case "true", "True":
		r.literal(trueNode, word == "True")
	case "false", "False":
		r.literal(falseNode, word == "False")
	case "null", "None", "undefined":
		r.literal(nullNode, word != "null")
	default:
		if p != nameValue {
			r.pos = start
			return r.fail(broken, "a value in double quotes")
		}
		r.push(wordNode, word)
		r.done |= quotedWords
	}
	return true
}

func (r *reader) literal(kind nodeKind, foreign bool) {
	r.push(kind, "")
	if foreign {
		r.done |= repairedLiterals
	}
}

// number reads a number and keeps its text. A plus sign, and a missing digit
// beside the point, are repaired.
func (r *reader) number() bool {
	start := r.pos
	for r.pos < len(r.text) && isNumberByte(r.text[r.pos]) {
		r.pos++
	}
	text := r.text[start:r.pos]
	if r.pos == len(r.text) && r.depth > 0 {
		return r.fail(cut, "the rest of a number")
	}
	if !validNumber(text) {
		if text = completeNumber(text); !validNumber(text) {
			r.pos = start
			return r.fail(broken, "a number as JSON writes it")
		}
		r.done |= repairedNumbers
	}
	r.push(numberNode, text)
	return true
}

func isNumberByte(c byte) bool {
	return '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || isWordStart(c)
}

// completeNumber rewrites +5, .5 and 5. as JSON would.
func completeNumber(text string) string {
	text = strings.TrimPrefix(text, "+")
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	return sign + strings.TrimSuffix(text, ".")
}

// validNumber reports whether text is a number in the grammar of JSON.
func validNumber(text string) bool {
	text = strings.TrimPrefix(text, "-")
	whole := digits(text)
	if whole == 0 || whole > 1 && text[0] == '0' {
		return false
	}
	text = text[whole:]
	if strings.HasPrefix(text, ".") {
		n := digits(text[1:])
		if n == 0 {
			return false
		}
		text = text[1+n:]
	}
	if text == "" {
		return true
	}
	if text[0]|0x20 != 'e' {
		return false
	}
	text = text[1:]
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	return text != "" && digits(text) == len(text)
}

// digits counts the digits that text begins with.
func digits(text string) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}
