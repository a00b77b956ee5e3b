package spelling

import (
	"strings"
	"unicode"
)

// Clip shortens a text that somebody else wrote for use in an error.
func Clip(text string) string {
	const limit = 60
	if len(text) <= limit {
		return text
	}
	return Shorten(text, limit) + "…"
}

// Shorten returns the first bytes of a longer text, at most limit, and cuts no
// character in two.
func Shorten(text string, limit int) string {
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit]
}

// OneLine puts a text on one line of at most limit characters: white space of any kind
// becomes one space, and what is not seen, such as marks that change the direction of
// writing, goes. The joiners inside of emoji and words stay. Torn bytes become U+FFFD.
func OneLine(text string, limit int) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d':
			return -1
		}
		return r
	}, text)
	line := strings.Join(strings.Fields(visible), " ")
	if runes := []rune(line); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return line
}
