package scrub

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// words are what is looked for in texts. The zero value is none.
type words struct {
	n     int
	known map[rune][]word // by the letter with which they begin
}

// word is looked for, and standIn written instead. fold says that case does not matter.
type word struct {
	text, standIn string
	fold          bool
}

// want has a text looked for, as long as there are not too many.
func (w *words) want(text, standIn string, fold bool) {
	if w.n >= maxKnown || text == "" || !utf8.ValidString(text) || reserved.MatchString(text) {
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

// reserved are words of stand-ins, and of plans: if they were replaced, nothing would stand
// for anybody, and no plan could be read.
var reserved = regexp.MustCompile(`(?i)^(?:(?:user|conversation|activity|tenant|person)(?:-\d+)?|secret|example|com|` +
	`plan|type|commands|do|say|action|entities|parameters|response|saveas|observe|true|false|null)$`)

// ordinary are names that are words of a sentence when they are written small.
var ordinary = regexp.MustCompile(`(?i)^(?:april|august|bill|chase|dawn|dean|drew|faith|frank|grace|grant|hope|iris|jack|june|july|king|lane|list|long|mark|page|park|pearl|pierce|price|rich|rose|ruby|stone|wade|ward|west|will|wood|young)$`)

// wantName has all of a name looked for, and each word of it.
func (w *words) wantName(name, standIn string) {
	name = strings.TrimSpace(name)
	parts := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' && r != '\'' })
	for _, word := range parts {
		word = strings.Trim(word, "-'")
		n := utf8.RuneCountInString(word)
		if n >= leastName || n > 1 && !isSpaced(lastRune(word)) {
			w.want(word, standIn, n >= leastFolded && !ordinary.MatchString(word))
		}
	}
	if len(parts) > 1 {
		w.want(strings.Join(strings.Fields(name), " "), standIn, true)
	} else if utf8.RuneCountInString(name) < leastName || reserved.MatchString(name) { // only where prompts say who writes
		w.want(`"`+name+`" writes:`, `"`+standIn+`" writes:`, false)
	}
}

// replace replaces what is known, where it is a word: the longest that there is.
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

// length is how much of the beginning of the text is the word; 0: it begins with something
// else. Between the words of a name there may be any space.
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

// isWord reports whether no letter or digit of a script that parts words stands right
// before or behind what was found, but as the end of what stands for one character.
func isWord(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	first, _ := utf8.DecodeRuneInString(text[from:])
	after, _ := utf8.DecodeRuneInString(text[to:])
	goesOn := func(a, b rune) bool {
		return isPart(a) && isPart(b) && isSpaced(a) && isSpaced(b)
	}
	begins := !goesOn(before, first) || escapeAtEnd.MatchString(text[max(0, from-len(`\u00fc`)):from])
	return begins && !goesOn(lastRune(text[from:to]), after)
}

var escapeAtEnd = regexp.MustCompile(`(?:\\(?:[bfnrt]|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2})$`)

func lastRune(text string) rune {
	r, _ := utf8.DecodeLastRuneInString(text)
	return r
}

func isPart(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// isSpaced reports whether the script of r puts spaces between words.
func isSpaced(r rune) bool {
	return !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}
