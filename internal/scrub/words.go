package scrub

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// words are what is looked for in texts, with what stands for it. The zero value is none.
type words struct {
	exact  map[string]string
	folded map[string]string // those of which case does not matter
	found  map[rune][]word   // all of these, by how they begin; nil: to be made
}

type word struct {
	text, standIn string
	fold          bool
}

func (w *words) size() int { return len(w.exact) + len(w.folded) }

// want has a text looked for, as long as there are not too many.
func (w *words) want(text, standIn string, fold bool) {
	to, key := &w.exact, text
	if fold {
		to, key = &w.folded, folded(text)
	}
	if _, known := (*to)[key]; known || text == "" || !utf8.ValidString(text) || w.size() >= maxKnown || reserved.MatchString(text) {
		return
	}
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[key], w.found = standIn, nil
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
	if w.size() == 0 {
		return text
	}
	if w.found == nil {
		w.sort()
	}
	var out strings.Builder
	from := 0
	for at, first := range text {
		if at < from {
			continue
		}
		for _, one := range w.found[foldedRune(first)] {
			if end := at + one.length(text[at:]); end > at && isWord(text, at, end) {
				out.WriteString(text[from:at] + one.standIn)
				from = end
				break
			}
		}
	}
	return out.String() + text[from:]
}

func (w *words) sort() {
	w.found = map[rune][]word{}
	add := func(one word) {
		first, _ := utf8.DecodeRuneInString(one.text)
		w.found[foldedRune(first)] = append(w.found[foldedRune(first)], one)
	}
	for text, standIn := range w.exact {
		add(word{text, standIn, false})
	}
	for text, standIn := range w.folded {
		add(word{text, standIn, true})
	}
	for _, list := range w.found {
		slices.SortFunc(list, func(a, b word) int {
			return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text))
		})
	}
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
		if foldedRune(r) != want && !(want == ' ' && unicode.IsSpace(r)) {
			return 0
		}
		at += n
		if want == ' ' {
			at = len(text) - len(strings.TrimLeftFunc(text[at:], unicode.IsSpace))
		}
	}
	return at
}

// folded is one form of all texts that differ in case only.
func folded(text string) string { return strings.Map(foldedRune, text) }

func foldedRune(r rune) rune {
	if r < utf8.RuneSelf {
		return unicode.ToUpper(r)
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
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
