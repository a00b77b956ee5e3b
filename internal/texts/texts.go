// Package texts translates what a bot says by itself. A sentence in English is its own key, so
// code reads as people do; catalogues have it in other languages.
package texts

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/message/catalog"
)

// Text is a sentence in English with verbs of package fmt. It is also the key of its translations.
type Text string

//go:embed *.json
var shipped embed.FS

// Catalog has sentences in several languages. nil has English only. It is safe for concurrent use.
type Catalog struct {
	sentences catalog.Catalog
	matcher   language.Matcher
}

// New returns the shipped catalogues, with changes by language (BCP 47) and English sentence. A
// language that is not shipped is added; what it lacks is said in English. The error lists every
// unknown language and every sentence whose verbs differ from the English ones.
func New(changes map[string]map[string]string) (*Catalog, error) {
	all := catalog.NewBuilder(catalog.Fallback(language.English))
	tags := []language.Tag{language.English} // the first is the fallback
	var faults []error
	add := func(name string, sentences map[string]string) {
		tag, err := language.Parse(name)
		if err != nil {
			faults = append(faults, fmt.Errorf("texts: %q is not a language: %w", name, err))
			return
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
		for _, english := range slices.Sorted(maps.Keys(sentences)) {
			said := sentences[english]
			if want, got := verbs(english), verbs(said); !slices.Equal(want, got) {
				faults = append(faults, fmt.Errorf("texts: %s: %q has the verbs %v, want %v as in %q", name, said, got, want, english))
			} else if err := all.SetString(tag, english, said); err != nil {
				faults = append(faults, fmt.Errorf("texts: %s: %q: %w", name, said, err))
			}
		}
	}
	for _, name := range Languages() {
		sentences, err := Shipped(name)
		if err != nil {
			return nil, err
		}
		add(name, sentences)
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		add(name, changes[name])
	}
	return &Catalog{sentences: all, matcher: language.NewMatcher(tags)}, errors.Join(faults...)
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
func Shipped(name string) (sentences map[string]string, err error) {
	text, err := shipped.ReadFile(name + ".json")
	if err == nil {
		err = json.Unmarshal(text, &sentences)
	}
	return sentences, err
}

// Say says a sentence in the language of a locale, such as de-AT. An empty or unknown locale means
// English.
func (c *Catalog) Say(locale string, sentence Text, args ...any) string {
	if c == nil {
		return message.NewPrinter(language.English).Sprintf(string(sentence), args...)
	}
	tag := language.English
	if wanted, err := language.Parse(locale); err == nil {
		if matched, _, confidence := c.matcher.Match(wanted); confidence >= language.High {
			tag = matched
		}
	}
	return message.NewPrinter(tag, message.Catalog(c.sentences)).Sprintf(string(sentence), args...)
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
