// Package scrub takes out of texts what must not be in a file that is shown to others:
// secrets, and who and where people are. Each id and name has a stand-in that stays the
// same, so that what is left still makes sense. It finds what looks like a secret, and the
// people that it was told of: what somebody writes about others in their own words stays.
package scrub

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Secret stands for every secret.
const Secret = "[secret]"

// The kinds of ids, which begin their stand-ins.
const (
	Person       = "user"
	Conversation = "conversation"
	Activity     = "activity"
	Tenant       = "tenant"
)

const (
	// leastID is how long an id has to be to be looked for in texts: a local client may
	// call a person "1".
	leastID = 6
	// leastName is how many letters a part of a name has to have for that.
	leastName = 3
	// maxKnown bounds the stand-ins; what comes after that is the last of its kind.
	maxKnown = 10_000
)

// Scrubber knows the stand-ins. The zero value knows no one yet, and no secrets but by
// their form. It is safe for concurrent use.
type Scrubber struct {
	mu      sync.Mutex
	secrets []string
	known   map[string]string // stand-ins by what they stand for
	last    map[string]int    // numbers by kind
	wanted  map[string]string // stand-ins of what is looked for in texts
	find    *regexp.Regexp    // all of these; nil: to be made
}

// New returns a scrubber that knows these secrets, of which empty ones do not count.
func New(secrets ...string) *Scrubber {
	s := &Scrubber{}
	for _, one := range secrets {
		if len(one) >= leastID {
			s.secrets = append(s.secrets, one)
		}
	}
	slices.SortFunc(s.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return s
}

// ID is the stand-in of an id of that kind: "user-1" of the first person. "" stays "".
func (s *Scrubber) ID(kind, id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id(kind, id)
}

// Keep has that account keep a stand-in of its own, such as the bot.
func (s *Scrubber) Keep(id, standIn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	s.known[Person+"\x00"+id] = standIn
	if len(id) >= leastID && id != standIn {
		s.want(id, standIn)
	}
}

func (s *Scrubber) init() {
	if s.known == nil {
		s.known, s.last, s.wanted = map[string]string{}, map[string]int{}, map[string]string{}
	}
}

func (s *Scrubber) id(kind, id string) string {
	if id == "" {
		return ""
	}
	key := kind + "\x00" + id
	if known := s.known[key]; known != "" {
		return known
	}
	s.init()
	if len(s.known) < maxKnown {
		s.last[kind]++
	}
	standIn := fmt.Sprintf(forms[kind], s.last[kind])
	if len(s.known) < maxKnown {
		s.known[key] = standIn
		if len(id) >= leastID && kind != Activity { // which nobody writes
			s.want(id, standIn)
		}
	}
	return standIn
}

// forms are those of stand-ins, by kind.
var forms = map[string]string{
	Person: "user-%d", Conversation: "conversation-%d", Activity: "activity-%d", Tenant: "tenant-%d",
	guidKind: "00000000-0000-0000-0000-%012d", mailKind: "person-%d@example.com",
}

const guidKind, mailKind = "guid", "mail"

// Name is the stand-in of the person with that id, who is looked for by that name from
// now on: by all of it, and by each word of it.
func (s *Scrubber) Name(id, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	standIn := s.id(Person, cmp.Or(id, name))
	for _, word := range append(strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' && r != '\'' }), strings.TrimSpace(name)) {
		if n := utf8.RuneCountInString(word); n >= leastName || n > 1 && !isSpaced(lastRune(word)) {
			s.want(word, standIn)
		}
	}
	return standIn
}

// Version changes when texts may have other stand-ins than before.
func (s *Scrubber) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wanted)
}

// want has a text looked for.
func (s *Scrubber) want(text, standIn string) {
	if _, known := s.wanted[text]; !known && len(s.wanted) < maxKnown {
		s.wanted[text], s.find = standIn, nil
	}
}

// secret is a form of secrets, of which group 1, if there is one, stays.
var secret = []*regexp.Regexp{
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|$)`),
	regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?`),
	regexp.MustCompile(`(?i)(\bauthorization\\?["']?\s*[:=]\s*\\?["']?)(?:\w+\s+)?[\w.~+/=-]{3,}`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}`),
	regexp.MustCompile(`\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abeprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{35})`),
	regexp.MustCompile(`\b[\w~.-]{3}\dQ~[\w~.-]{20,}`),
	regexp.MustCompile(`(\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s:@"'<>]*:[^/\s@"'<>]+(?:@)`),
	regexp.MustCompile(`(?i)(\b(?:\w+[_-])?(?:api[_-]?key|access[_-]?key|account[_-]?key|secret|password|passwd|pwd|token|sig)\\?["']?\s*[:=]\s*\\?["']?)[^\s"'\\&,;<>{}\[\]()*]{2,}[\w=/+]`),
}

var (
	mail = regexp.MustCompile(`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`)
	guid = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	// account is a person's as Teams writes it, and place a conversation's.
	account = regexp.MustCompile(`\b29:[\w-]{16,}|\b8:orgid:[\w-]{16,}`)
	place   = regexp.MustCompile(`\b19:[\w-]{8,}@[\w.]+|\ba:1[\w-]{20,}`)
)

// Text is the text with stand-ins. A nil scrubber changes nothing.
func (s *Scrubber) Text(text string) string {
	if s == nil || text == "" {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.secrets {
		text = strings.ReplaceAll(text, one, Secret)
	}
	for _, form := range secret {
		text = form.ReplaceAllStringFunc(text, func(found string) string { return kept(form, found) })
	}
	text = s.replaceForm(account, Person, text)
	text = s.replaceForm(place, Conversation, text)
	text = s.replaceForm(mail, mailKind, text)
	text = s.replaceKnown(text)
	return s.replaceForm(guid, guidKind, text)
}

// replaceForm replaces what has the form of an id of that kind.
func (s *Scrubber) replaceForm(form *regexp.Regexp, kind, text string) string {
	return form.ReplaceAllStringFunc(text, func(found string) string {
		if isStandIn(found) {
			return found
		}
		if kind == mailKind {
			found = strings.ToLower(found)
		}
		return s.id(kind, found)
	})
}

// kept is what is left of a secret: what it begins with, and the end of where it stood.
func kept(form *regexp.Regexp, found string) string {
	m := form.FindStringSubmatch(found)
	if len(m) < 2 {
		return Secret
	}
	if strings.HasSuffix(m[1], "://") {
		return m[1] + Secret + "@"
	}
	return m[1] + Secret
}

func isStandIn(text string) bool {
	return strings.HasSuffix(text, "@example.com") || strings.HasPrefix(text, "00000000-0000-0000-0000-") ||
		strings.Contains(text, Secret)
}

// replaceKnown replaces the ids and names that are known, where they are words.
func (s *Scrubber) replaceKnown(text string) string {
	if len(s.wanted) == 0 {
		return text
	}
	if s.find == nil {
		s.find = alternatives(s.wanted)
	}
	var out strings.Builder
	from := 0
	for _, at := range s.find.FindAllStringIndex(text, -1) {
		if !isWord(text, at[0], at[1]) {
			continue
		}
		out.WriteString(text[from:at[0]] + s.wanted[text[at[0]:at[1]]])
		from = at[1]
	}
	return out.String() + text[from:]
}

// alternatives finds any of the texts, the longest that there is.
func alternatives(wanted map[string]string) *regexp.Regexp {
	var all []string
	for text := range wanted {
		all = append(all, regexp.QuoteMeta(text))
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return regexp.MustCompile(strings.Join(all, "|"))
}

// isWord reports whether no letter or digit of a script that parts words stands right
// before or behind what was found.
func isWord(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	first, _ := utf8.DecodeRuneInString(text[from:])
	after, _ := utf8.DecodeRuneInString(text[to:])
	goesOn := func(a, b rune) bool {
		return isPart(a) && isPart(b) && isSpaced(a) && isSpaced(b)
	}
	return !goesOn(before, first) && !goesOn(lastRune(text[from:to]), after)
}

func lastRune(text string) rune {
	r, _ := utf8.DecodeLastRuneInString(text)
	return r
}

func isPart(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// isSpaced reports whether the script of r puts spaces between words.
func isSpaced(r rune) bool {
	return !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}
