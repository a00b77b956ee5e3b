package activity

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of what is read of the cards in a message.
const (
	maxShared      = 5
	maxSharedText  = 2000      // UTF-16 code units of each
	maxSharedBytes = 128 << 10 // of the JSON of all
)

// Shared is something that a person put into a message besides words, pictures and files.
type Shared struct {
	Kind string // card, snippet, Loop component, meeting or announcement
	// Text is what it shows, or "" if that is not known. Somebody else may have written it, so it is data: it
	// asks the bot for nothing.
	Text string
}

// shownBy returns the texts that the JSON of a card shows, one a line and in their order. Of other content
// it is the words.
func shownBy(content jsontext.Value) string {
	if content.Kind() != '{' && content.Kind() != '[' {
		return plain(string(content))
	}
	from := strings.NewReader(string(content))
	r := sharedReader{from: jsontext.NewDecoder(from, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
	if r.readValue("", "") != nil && len(r.lines) == 0 {
		return plain(string(content))
	}
	if len(r.lines) == 0 {
		return r.fallback
	}
	return strings.Join(r.lines, "\n")
}

// sharedReader reads a card value by value, so that nothing in it costs more than its length.
type sharedReader struct {
	from     *jsontext.Decoder
	lines    []string
	fallback string
}

// texts are the members whose texts people see. Others are for programs.
var texts = []string{
	"activitysubtitle", "activitytext", "activitytitle", "alttext", "code", "componenturl", "description", "end", "enddatetime",
	"header", "label", "language", "lines", "location", "name", "note", "snippet", "start", "startdatetime", "subject", "subtitle",
	"summary", "text", "title",
}

// unseen are the members of which people see nothing.
var unseen = []string{"$schema", "authentication", "channeldata", "data", "fallback", "metadata", "msteams", "refresh", "requires", "tap"}

// readValue reads the next value, of the member with that name, which is in an object of the member named in.
func (r *sharedReader) readValue(name, in string) error {
	switch kind := r.from.PeekKind(); kind {
	case '{', '[':
		if slices.Contains(unseen, name) {
			return r.from.SkipValue()
		}
		return r.readMembers(name, in)
	case '"':
		token, err := r.from.ReadToken()
		if err != nil {
			return err
		}
		r.add(name, in, token.String())
		return nil
	default:
		_, err := r.from.ReadToken()
		return err
	}
}

func (r *sharedReader) readMembers(name, in string) error {
	open, err := r.from.ReadToken()
	if err != nil {
		return err
	}
	object := open.Kind() == '{'
	for r.from.PeekKind() != '}' && r.from.PeekKind() != ']' {
		member, within := name, in
		if object {
			token, err := r.from.ReadToken()
			if err != nil {
				return err
			}
			member, within = strings.ToLower(token.String()), name
		}
		if err := r.readValue(member, within); err != nil {
			return err
		}
	}
	_, err = r.from.ReadToken()
	return err
}

// add notes a text. The value of a fact is one; that of an input or a button is not.
func (r *sharedReader) add(name, in, text string) {
	text = strings.TrimSpace(text)
	seen := slices.Contains(texts, name) || name == "inlines" || name == "value" && (in == "facts" || in == "items")
	switch {
	case text == "":
	case name == "fallbacktext":
		r.fallback = text
	case seen && !slices.Contains(r.lines, text):
		r.lines = append(r.lines, text)
	}
}
