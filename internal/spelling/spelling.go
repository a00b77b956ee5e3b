// Package spelling finds the known names that a misspelt one may stand for. It decides
// nothing: what it finds is suggested to whoever wrote the name.
package spelling

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Most is how many names are suggested for one that is unknown.
const Most = 3

// Nearest returns up to [Most] of the known names that are near, those with the fewest
// edits first and in their order among equals. near tells the edits of each.
func Nearest(known []string, near func(name string) (edits int, ok bool)) []string {
	type candidate struct {
		name  string
		edits int
	}
	var found []candidate
	for _, name := range known {
		if n, ok := near(name); ok {
			found = append(found, candidate{name, n})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.edits, b.edits) })
	var names []string
	for _, c := range found[:min(len(found), Most)] {
		names = append(names, c.name)
	}
	return names
}

// Meant is the known name that name most likely stands for, at most two edits away; "": there is none.
func Meant(name string, known []string) string {
	near := Nearest(known, func(other string) (int, bool) {
		edits := Edits(name, other)
		return edits, edits <= 2
	})
	return append(near, "")[0]
}

// Hint is the end of a sentence about a name that somebody typed and nothing has: the one that was meant, or "".
func Hint(name string, known []string) string {
	if meant := Meant(name, known); meant != "" && len(name) > 2 { // two edits make anything of a shorter one
		return "; did you mean " + meant + "?"
	}
	return ""
}

// Suggest names the known actions that are nearest to an unknown name, as the end of a
// sentence.
func Suggest(name string, known []string) string {
	name = Clip(name)
	function := Plain(name[strings.LastIndexByte(name, '.')+1:]) // the model may have made up a plugin
	name = Plain(name)
	near := Nearest(known, func(action string) (int, bool) {
		action = Plain(action)
		edits := min(Edits(name, action), Edits(function, action))
		return edits, edits <= max(2, len(name)/2)
	})
	if near == nil {
		return "; use only the actions that are listed"
	}
	return "; the nearest names are " + strings.Join(near, ", ")
}

// Plain drops what is changed most often in names: case, and marks between words.
func Plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", "/", "", `\`, "", " ", "").Replace(strings.ToLower(name))
}

// Edits counts the changes of single bytes that make b of a (Levenshtein's distance). It
// takes time in proportion to the product of their lengths: cut what strangers wrote.
func Edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// Clip shortens a text that somebody else wrote for use in an error.
func Clip(text string) string {
	const limit = 60
	if len(text) <= limit {
		return text
	}
	return Shorten(text, limit) + "…"
}

// Shorten returns the first bytes of a text, at most limit, and cuts no character in two.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
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

// Limit is a text with at most that many characters, the last of which is an ellipsis if it was longer.
func Limit(text string, most int) string {
	switch {
	case len(text) <= most || utf8.RuneCountInString(text) <= most:
		return text
	case most == 0:
		return ""
	}
	return strings.TrimRightFunc(string([]rune(text)[:most-1]), unicode.IsSpace) + "…"
}

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
