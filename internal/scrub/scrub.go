// Package scrub takes out of texts what must not be in a file that is shown to others:
// secrets, and who and where people are. Each id and name has a stand-in that stays the
// same, so that what is left still makes sense. It finds what looks like a secret, and the
// people that it was told of: what somebody writes about others in their own words stays,
// and so do numbers of telephones, accounts and cards.
package scrub

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	// leastName is how many letters a part of a name has to have for that, and leastFolded
	// how many to be found without regard to case.
	leastName, leastFolded = 3, 4
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
	words   words
}

// New returns a scrubber that knows these secrets, of which empty ones do not count.
func New(secrets ...string) *Scrubber {
	s := &Scrubber{}
	for _, one := range secrets {
		if len(one) >= leastID {
			s.secrets = append(s.secrets, one, url.QueryEscape(one))
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
	s.wantID(id, standIn)
}

func (s *Scrubber) init() {
	if s.known == nil {
		s.known, s.last = map[string]string{}, map[string]int{}
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
		if kind != Activity { // which nobody writes
			s.wantID(id, standIn)
		}
	}
	return standIn
}

// wantID has an id looked for, also as it is written in an address.
func (s *Scrubber) wantID(id, standIn string) {
	if len(id) < leastID || id == standIn {
		return
	}
	for _, form := range []string{id, url.QueryEscape(id), escaped.ReplaceAllStringFunc(url.QueryEscape(id), strings.ToLower)} {
		s.words.want(form, standIn, false)
	}
}

var escaped = regexp.MustCompile(`%[0-9A-F]{2}`)

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
	s.words.wantName(name, standIn)
	return standIn
}

// Version changes when texts may have other stand-ins than before.
func (s *Scrubber) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words.size()
}

// Text is the text with stand-ins. A string of JSON in it is looked at for what it means,
// with whatever JSON is in that: one that needs none stays byte by byte, and what was JSON
// is JSON. A nil scrubber changes nothing.
func (s *Scrubber) Text(text string) string {
	if s == nil || text == "" {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text(text)
}

// plain is a text in which nothing is quoted that has to stay so.
func (s *Scrubber) plain(text string) string {
	for _, one := range s.secrets {
		text = strings.ReplaceAll(text, one, Secret)
	}
	small := strings.ToLower(text)
	for i := range secrets {
		if secrets[i].mayBeIn(small) {
			text = s.hide(&secrets[i], text)
		}
	}
	if strings.ContainsAny(text, ":%") {
		text = s.replaceForm(account, Person, text)
		text = s.replaceForm(place, Conversation, text)
	}
	if strings.Contains(text, "@") {
		text = s.replaceForm(mail, mailKind, text)
	}
	text = s.words.replace(text)
	if strings.Count(text, "-") >= 4 {
		text = s.replaceForm(guid, guidKind, text)
	}
	return text
}

// replaceForm replaces what has the form of an id of that kind, in the second group of the
// form.
func (s *Scrubber) replaceForm(form *regexp.Regexp, kind, text string) string {
	return form.ReplaceAllStringFunc(text, func(found string) string {
		m := form.FindStringSubmatch(found)
		before, id := m[1], m[2]
		if isStandIn(id) {
			return found
		}
		if kind == mailKind {
			id = strings.ToLower(id)
		}
		if plain, err := url.PathUnescape(id); err == nil {
			id = plain
		}
		return before + s.id(kind, id)
	})
}

func isStandIn(text string) bool {
	return strings.HasSuffix(text, "@example.com") || strings.HasPrefix(text, "00000000-0000-0000-0000-") ||
		strings.Contains(text, Secret)
}
