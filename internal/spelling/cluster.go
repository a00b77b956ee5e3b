package spelling

import (
	"unicode"
	"unicode/utf16"
)

// Joins reports whether c continues the last grapheme cluster, what people see as one character: it
// has that many runes, the first and the last of which are given. In doubt it does.
func Joins(runes int, first, last, c rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c'
	switch {
	case runes == 0:
		return false
	case c == '\n':
		return last == '\r'
	case unicode.IsSpace(c), c < 0x300 && last != joiner:
		return false
	case last == joiner, c == joiner, c == nonJoiner, unicode.Is(unicode.M, c):
		return true
	case 0x1F1E6 <= c && c <= 0x1F1FF: // half a flag
		return runes == 1 && 0x1F1E6 <= first && first <= 0x1F1FF
	}
	return 0x1F3FB <= c && c <= 0x1F3FF || 0xE0020 <= c && c <= 0xE007F || // skin tones and tags
		c == 0x0E33 || c == 0x0EB3 || isJamo(c) && unicode.Is(unicode.Hangul, last) || isJamo(last) && unicode.Is(unicode.Hangul, c)
}

// isJamo reports whether c is a part of a Korean syllable.
func isJamo(c rune) bool {
	return 0x1100 <= c && c <= 0x11FF || 0xA960 <= c && c <= 0xA97F || 0xD7B0 <= c && c <= 0xD7FF
}

// Cut shortens a text to that many UTF-16 code units, with an ellipsis at the end, and cuts no
// character that people see in two. A first one that is longer than that is cut.
func Cut(text string, units int) string {
	var first, last rune
	end, runes, used, hard := 0, 0, 0, 0
	for i, c := range text {
		if !Joins(runes, first, last, c) {
			if used < units { // there is room for the ellipsis
				end = i
			}
			first, runes = c, 0
		}
		if used < units {
			hard = i
		}
		last, runes, used = c, runes+1, used+max(utf16.RuneLen(c), 1)
	}
	switch {
	case used <= units:
		return text
	case end == 0:
		end = hard
	}
	return text[:end] + "…"
}

// Prefix returns how many bytes of text fit into that many UTF-16 code units.
func Prefix(text string, units int) int {
	for i, r := range text {
		if units -= utf16.RuneLen(r); units < 0 {
			return i
		}
	}
	return len(text)
}
