package plan

import "strings"

// looksJSON reports whether a text begins as JSON: it may be broken, but it is
// not meant as prose.
func looksJSON(text string) bool {
	if text == "" {
		return false
	}
	inner := strings.TrimLeftFunc(text, func(c rune) bool { return c == '{' || c == '[' || isBlank(c) })
	if inner == "" {
		return text[0] == '{' || text[0] == '['
	}
	switch text[0] {
	case '{':
		return strings.IndexByte(`"'}&\,:`, inner[0]) >= 0 || quoteAt(inner, 0).size > 0 || keyFollows(text[1:])
	case '[':
		object := strings.Contains(text[:len(text)-len(inner)], "{")
		return strings.IndexByte(`"]}`, inner[0]) >= 0 || object && keyFollows(inner)
	}
	return false
}

// keyFollows reports whether text, the text behind a {, begins with a key: a
// string, or a bare word and a colon.
func keyFollows(text string) bool {
	text = strings.TrimLeftFunc(text, isBlank)
	if quoteAt(text, 0).size > 0 {
		return true
	}
	const longest = 64
	n := 0
	for n < len(text) && n < longest && isWordByte(text[n]) {
		n++
	}
	if n == 0 || !isWordStart(text[0]) {
		return strings.HasPrefix(text, "/*") || strings.HasPrefix(text, "//")
	}
	text = strings.TrimLeft(text[n:], " \t")
	return strings.HasPrefix(text, ":") || strings.HasPrefix(text, "：")
}

// extent finds where the bracket that opens at start is closed again, outside of
// strings; -1 when it is not, and then whether a string was left open. It is for
// text that cannot be read better than that: a bracket of the wrong kind closes
// all that stands open within its own.
func extent(text string, start int) (end int, inString bool) {
	mark := byte('"')
	if quoteAt(text, firstKey(text, start)).end == "'" {
		mark = '\''
	}
	var open brackets
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == mark:
			inString = !inString
		case inString:
		case c == '{', c == '[':
			open.push(c)
		case c == '}', c == ']':
			if open.pop(c - 2); len(open.stack) == 0 { // in ASCII, each pair is two apart
				return i + 1, false
			}
		}
	}
	return -1, inString
}

// brackets are those that are open at a place of a text.
type brackets struct {
	stack []byte
	count [2]int // how many { and how many [
}

func (b *brackets) push(open byte) {
	b.stack = append(b.stack, open)
	b.count[isSquare(open)]++
}

// pop closes the last bracket of the given kind, and all that are open within
// it; when none of that kind is open, nothing.
func (b *brackets) pop(open byte) {
	if b.count[isSquare(open)] == 0 {
		return
	}
	for last := byte(0); last != open; {
		last = b.stack[len(b.stack)-1]
		b.stack = b.stack[:len(b.stack)-1]
		b.count[isSquare(last)]--
	}
}

func isSquare(bracket byte) int {
	if bracket == '[' {
		return 1
	}
	return 0
}

// endsWithBracket reports whether the last thing in text, but for a fence, is a
// closing bracket.
func endsWithBracket(text string) bool {
	text = strings.TrimRight(text, " \t\r\n`~;")
	return strings.HasSuffix(text, "}") || strings.HasSuffix(text, "]")
}

// containsFold reports whether text contains a lower-case word in any case.
func containsFold(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0] && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// mentionsDo reports whether anything in text might be a DO command.
func mentionsDo(text string) bool {
	if containsFold(text, "action") {
		return true
	}
	for i := 1; i+2 < len(text); i++ {
		if text[i]|0x20 == 'd' && text[i+1]|0x20 == 'o' && !isWordByte(text[i-1]) && !isWordByte(text[i+2]) {
			before := strings.TrimRight(text[:i], "\"'“‘ ")
			if strings.HasSuffix(before, ":") || strings.HasSuffix(before, "：") {
				return true
			}
		}
	}
	return false
}
