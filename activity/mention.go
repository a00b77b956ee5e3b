package activity

import (
	"html"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// maxMentions bounds how many entities of one activity are looked at.
const maxMentions = 200

// Mention is an entity that says who is meant by a part of the text.
type Mention struct {
	Mentioned Account `json:"mentioned"`
	Text      string  `json:"text"`
}

// Mentions returns the mention entities. Entities of other types, or of a
// shape that is no mention, are left out.
func (a *Activity) Mentions() []Mention {
	var out []Mention
	for _, raw := range a.Entities[:min(len(a.Entities), maxMentions)] {
		var e struct {
			Type string `json:"type"`
			Mention
		}
		if raw.Kind() == '{' && json.Unmarshal(raw, &e) == nil && strings.EqualFold(e.Type, "mention") {
			out = append(out, e.Mention)
		}
	}
	return out
}

// Addressed reports whether the activity mentions its recipient, the bot. Only
// entities count: "<at>…</at>" in a text is no proof of anything.
func (a *Activity) Addressed() bool {
	return slices.ContainsFunc(a.Mentions(), a.ofRecipient)
}

func (a *Activity) ofRecipient(m Mention) bool {
	return m.Mentioned.ID != "" && strings.EqualFold(m.Mentioned.ID, a.Recipient.ID)
}

// Said returns what the person wrote to the bot: the text without the mentions
// of the bot, other mentions as plain names, the HTML escapes that Teams uses
// ("&nbsp;", "&amp;") as plain characters, and outer white space removed.
func (a *Activity) Said() string {
	text := a.Text
	for _, m := range a.Mentions() {
		name := "<at>" + m.Mentioned.Name + "</at>"
		if a.ofRecipient(m) {
			text = without(text, m.Text, name)
		} else if m.Text != "" && m.Mentioned.Name != "" {
			text = strings.Replace(text, m.Text, m.Mentioned.Name, 1) // an entity stands for one place
		}
	}
	if a.ChannelID == Teams {
		text = strings.ReplaceAll(html.UnescapeString(text), "\u00a0", " ")
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.TrimSpace(text)
}

// without removes the mention from the text, and the space that it leaves double.
func without(text, mention, name string) string {
	if mention == "" {
		mention = name
	}
	var kept strings.Builder
	for {
		before, after, found := strings.Cut(text, mention)
		kept.WriteString(before)
		if !found {
			return kept.String()
		}
		if so := kept.String(); so == "" || strings.HasSuffix(so, " ") {
			after = strings.TrimLeft(after, " ")
		}
		text = after
	}
}
