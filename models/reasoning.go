package models

import "strings"

// reasoningTags are the names that models give to what they think aloud, in <> or
// in [].
var reasoningTags = [...]string{"think", "thinking", "reasoning", "analysis", "scratchpad"}

// withoutReasoning cuts the blocks of reasoning off that stand before the answer,
// where a server leaves them in the text. A block that is never closed stays: the
// answer was cut off, and whoever reads the text has to see that.
func withoutReasoning(text string) string {
	for {
		rest, ok := afterReasoning(text)
		if !ok {
			return text
		}
		text = rest
	}
}

func afterReasoning(text string) (string, bool) {
	text = strings.TrimLeft(text, " \t\r\n")
	if text == "" || text[0] != '<' && text[0] != '[' {
		return "", false
	}
	for _, name := range reasoningTags {
		for _, tag := range [...][2]string{{"<" + name + ">", "</" + name + ">"}, {"[" + name + "]", "[/" + name + "]"}} {
			if len(text) < len(tag[0]) || !strings.EqualFold(text[:len(tag[0])], tag[0]) {
				continue
			}
			if _, rest, ok := cutFold(text, tag[1]); ok {
				return strings.TrimLeft(rest, " \t\r\n"), true
			}
		}
	}
	return "", false
}

// cutFold is strings.Cut without regard to the case of ASCII letters.
func cutFold(text, sep string) (before, after string, found bool) {
	for i := 0; i+len(sep) <= len(text); i++ {
		next := strings.IndexByte(text[i:], sep[0])
		if next < 0 {
			break
		}
		i += next
		if i+len(sep) <= len(text) && strings.EqualFold(text[i:i+len(sep)], sep) {
			return text[:i], text[i+len(sep):], true
		}
	}
	return text, "", false
}
