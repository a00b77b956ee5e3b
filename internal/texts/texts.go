// Package texts translates what a bot says by itself. A sentence in English is its own key, so
// code reads as people do; catalogues have it in other languages.
package texts

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Text is a sentence in English with verbs of package fmt. It is also the key of its translations.
type Text string

//go:embed *.json
var shipped embed.FS

// Catalog has sentences in several languages. nil has English only. It is safe for concurrent use.
type Catalog struct {
	tags    []language.Tag // the first is the fallback
	matcher language.Matcher
	said    []func() map[string]string // of each tag, by English sentence
	// known are the tags of locales that came before, because looking for one takes time: people have few.
	known sync.Map // of strings to ints
	size  atomic.Int32
}

// New returns the shipped catalogues, with changes by language (BCP 47) and English sentence. A
// language that is not shipped is added; what it lacks is said in English. The error lists every
// unknown language and every sentence whose verbs differ from the English ones.
func New(changes map[string]map[string]string) (*Catalog, error) {
	c := &Catalog{tags: []language.Tag{language.English}, said: []func() map[string]string{func() map[string]string { return nil }}}
	for _, name := range Languages() {
		c.tags = append(c.tags, language.MustParse(name)) // a test has them all
		c.said = append(c.said, sync.OnceValue(func() map[string]string { return Shipped(name) }))
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		tag, err := language.Parse(name)
		if err != nil {
			faults = append(faults, fmt.Errorf("texts: %q is not a language: %w", name, err))
			continue
		}
		faults = append(faults, Check(name, changes[name]))
		at := slices.Index(c.tags, tag)
		if at < 0 {
			c.tags, c.said, at = append(c.tags, tag), append(c.said, c.said[0]), len(c.tags)
		}
		before := c.said[at]
		c.said[at] = sync.OnceValue(func() map[string]string {
			all := map[string]string{}
			maps.Copy(all, before())
			maps.Copy(all, changes[name])
			return all
		})
	}
	c.matcher = language.NewMatcher(c.tags)
	return c, errors.Join(faults...)
}

// Check returns an error for each sentence whose verbs differ from the English ones.
func Check(name string, sentences map[string]string) error {
	var faults []error
	for _, english := range slices.Sorted(maps.Keys(sentences)) {
		if want, got := verbs(english), verbs(sentences[english]); !slices.Equal(want, got) {
			faults = append(faults, fmt.Errorf("texts: %s: %q has the verbs %v, want %v as in %q", name, sentences[english], got, want, english))
		}
	}
	return errors.Join(faults...)
}

// Languages are those of the shipped catalogues, besides English.
func Languages() (names []string) {
	files, _ := shipped.ReadDir(".") // it is embedded
	for _, f := range files {
		names = append(names, f.Name()[:len(f.Name())-len(path.Ext(f.Name()))])
	}
	return names
}

// Shipped returns one shipped catalogue, by English sentence.
func Shipped(name string) (sentences map[string]string) {
	text, err := shipped.ReadFile(name + ".json")
	if err == nil {
		err = json.Unmarshal(text, &sentences)
	}
	if err != nil {
		panic(fmt.Sprintf("texts: %s: %v", name, err)) // it is embedded, and a test reads it
	}
	return sentences
}

// maxLocale is how many bytes of a locale are read. Reading takes time that grows with the square.
// maxKnown is how many locales are remembered.
const maxLocale, maxKnown = 35, 1000

// Say says a sentence in the language of a locale, such as de-AT. An empty or unknown locale means
// English.
func (c *Catalog) Say(locale string, sentence Text, args ...any) string {
	tag, said := language.English, string(sentence)
	if c != nil {
		at := c.index(locale[:min(len(locale), maxLocale)])
		tag = c.tags[at]
		said = cmp.Or(c.said[at]()[said], c.said[0]()[said], said)
	}
	if len(args) == 0 {
		return said
	}
	return message.NewPrinter(tag).Sprintf(said, args...)
}

func (c *Catalog) index(locale string) (at int) {
	if known, ok := c.known.Load(locale); ok {
		return known.(int) //nolint:forcetypeassert // stored below
	}
	if wanted, err := language.Parse(locale); err == nil {
		if _, best, confidence := c.matcher.Match(wanted); confidence >= language.High {
			at = best
		}
	}
	if c.size.Add(1) <= maxKnown {
		c.known.Store(strings.Clone(locale), at)
	}
	return at
}

var verb = regexp.MustCompile(`%(?:\[(\d+)\])?([a-zA-Z%])`)

// verbs lists the verbs of a sentence, each with the number of its argument, in that order.
func verbs(sentence string) (list []string) {
	next := 1
	for _, found := range verb.FindAllStringSubmatch(sentence, -1) {
		if found[2] == "%" {
			continue
		}
		if n, err := strconv.Atoi(found[1]); err == nil {
			next = n
		}
		list = append(list, fmt.Sprintf("%d%s", next, found[2]))
		next++
	}
	slices.Sort(list)
	return list
}
