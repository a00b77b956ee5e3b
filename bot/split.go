package bot

import (
	"strings"
	"unicode/utf16"
)

// maxPart is how many UTF-16 code units of text one message carries: well below
// the limits of the channels (Teams: 100 KB of UTF-16 for all of a message).
const maxPart = 16_000

// split cuts a text into parts of at most maxPart UTF-16 code units. Joined
// again the parts are the text. It cuts after a paragraph where it can, else
// after a line, a word or a character, and before a code block rather than in
// it.
func split(text string) []string {
	var parts []string
	for {
		limit := prefix(text, maxPart)
		if limit == len(text) {
			break
		}
		cut := cutAt(text[:limit])
		parts = append(parts, text[:cut])
		text = text[cut:]
	}
	if strings.TrimSpace(text) != "" || len(parts) == 0 {
		parts = append(parts, text)
	}
	return parts
}

// prefix returns how many bytes of text fit into the given number of UTF-16
// code units.
func prefix(text string, units int) int {
	if len(text) <= units {
		return len(text) // a code unit is at least a byte of UTF-8
	}
	for i, r := range text {
		if units -= utf16.RuneLen(r); units < 0 {
			return i
		}
	}
	return len(text)
}

// cutAt returns where to cut a text that is too long. A border in the first
// half would make the part needlessly short.
func cutAt(text string) int {
	half := len(text) / 2
	if fence := openFence(text); fence > 0 {
		text = text[:fence]
		half = min(half, fence/2)
	}
	for _, border := range []string{"\n\n", "\n", " "} {
		if i := strings.LastIndex(text, border); i >= half {
			return i + len(border)
		}
	}
	return len(text)
}

// openFence returns where the code block begins that the text ends in, or -1.
func openFence(text string) int {
	open, at := -1, 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
			if open < 0 {
				open = at
			} else {
				open = -1
			}
		}
		at += len(line)
	}
	return open
}
