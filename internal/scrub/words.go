package scrub

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/lazy"
)

// words are replaced in texts. The zero value has none.
type words struct {
	n     int
	known map[rune][]word // by first letter
}

// word is replaced by its standIn; with fold in any letter case.
type word struct {
	text, standIn string
	fold          bool
}

// want adds a text, up to maxKnown.
func (w *words) want(text, standIn string, fold bool) {
	if w.n >= maxKnown || text == "" || !utf8.ValidString(text) || reserved().MatchString(text) {
		return
	}
	if w.known == nil {
		w.known = map[rune][]word{}
	}
	if fold {
		text = strings.ToLower(text)
	}
	first, _ := utf8.DecodeRuneInString(text)
	list, one := w.known[unicode.ToLower(first)], word{text, standIn, fold}
	if !slices.ContainsFunc(list, func(known word) bool { return known.text == text && known.fold == fold }) {
		w.n++
		w.known[unicode.ToLower(first)] = append(list, one)
	}
}

// reserved matches words of stand-ins and of plans, which must stay readable.
var reserved = lazy.Regexp(`(?i)^(?:(?:user|conversation|activity|tenant|person)(?:-\d+)?|secret|example|com|` +
	`plan|type|commands|do|say|action|entities|parameters|response|saveas|observe|true|false|null)$`)

// ordinary matches names that are common words in lower case.
var ordinary = lazy.Regexp(`(?i)^(?:april|august|bill|chase|dawn|dean|drew|faith|frank|grace|grant|hope|iris|jack|june|july|king|lane|list|long|mark|page|park|pearl|pierce|price|rich|rose|ruby|stone|wade|ward|west|will|wood|young)$`)

// wantName adds a name and each word of it.
func (w *words) wantName(name, standIn string) {
	name = strings.TrimSpace(name)
	parts := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' && r != '\'' })
	for _, word := range parts {
		word = strings.Trim(word, "-'")
		n := utf8.RuneCountInString(word)
		if n >= leastName || n > 1 && !isSpaced(lastRune(word)) {
			w.want(word, standIn, n >= leastFolded && !ordinary().MatchString(word))
		}
	}
	if len(parts) > 1 {
		w.want(strings.Join(strings.Fields(name), " "), standIn, true)
	} else if utf8.RuneCountInString(name) < leastName || reserved().MatchString(name) { // only where prompts say who writes
		w.want(`is from "`+name+`"`, `is from "`+standIn+`"`, false)
	}
}

// replace replaces known words, the longest first.
func (w *words) replace(text string) string {
	var out strings.Builder
	from := 0
	for at, first := range text {
		if at < from {
			continue
		}
		end, standIn := at, ""
		for _, one := range w.known[unicode.ToLower(first)] {
			if to := at + one.length(text[at:]); to > end && isWord(text, at, to) {
				end, standIn = to, one.standIn
			}
		}
		if end > at {
			out.WriteString(text[from:at] + standIn)
			from = end
		}
	}
	return out.String() + text[from:]
}

// length is how many bytes at the start of the text are the word; 0: none. Any white space may
// separate the words of a name.
func (w *word) length(text string) int {
	if !w.fold {
		if strings.HasPrefix(text, w.text) {
			return len(w.text)
		}
		return 0
	}
	at := 0
	for _, want := range w.text {
		r, n := utf8.DecodeRuneInString(text[at:])
		if unicode.ToLower(r) != want && !(want == ' ' && unicode.IsSpace(r)) {
			return 0
		}
		at += n
		if want == ' ' {
			at = len(text) - len(strings.TrimLeftFunc(text[at:], unicode.IsSpace))
		}
	}
	return at
}

// isWord reports whether a match is a word of its own: no letter or digit of a script with spaces
// touches it, except the end of an escape.
func isWord(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	first, _ := utf8.DecodeRuneInString(text[from:])
	after, _ := utf8.DecodeRuneInString(text[to:])
	goesOn := func(a, b rune) bool {
		return isPart(a) && isPart(b) && isSpaced(a) && isSpaced(b)
	}
	begins := !goesOn(before, first) || escapeAtEnd().MatchString(text[max(0, from-len(`\u00fc`)):from])
	return begins && !goesOn(lastRune(text[from:to]), after)
}

var escapeAtEnd = lazy.Regexp(`(?:\\(?:[bfnrt]|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2})$`)

func lastRune(text string) rune {
	r, _ := utf8.DecodeLastRuneInString(text)
	return r
}

func isPart(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// isSpaced reports whether the script of r has spaces between words.
func isSpaced(r rune) bool {
	return !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}
