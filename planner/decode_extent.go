package planner

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

// extent finds where the brackets that open at start are closed again, outside
// of strings; -1 when they are not, and then whether a string was left open. It
// is for text that cannot be read better than that.
func extent(text string, start int) (end int, inString bool) {
	mark := byte('"')
	if quoteAt(text, firstKey(text, start)).end == "'" {
		mark = '\''
	}
	depth := 0
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == mark:
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return i + 1, false
			}
		}
	}
	return -1, inString
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
