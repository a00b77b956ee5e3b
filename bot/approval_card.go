package bot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/planbot-go/planbot/activity"
)

const (
	// maxShown is how many bytes the arguments of a call may have that a person is
	// asked about: a message of Teams holds about 28 KB of card.
	maxShown = 12 << 10

	verbApprove = "planbot/approve"
	verbReject  = "planbot/reject"
)

type object = map[string]any

// question asks for the approval: with a card where the channel draws them, else
// in words.
func (t *Turn) question(p *pending) *activity.Activity {
	words := t.inWords(p)
	if !showsCards(t.Activity.ChannelID) {
		return t.message(words + fmt.Sprintf("\n\nSay **/approve %s** or **/reject %s**.", p.ID, p.ID))
	}
	card := t.askingCard(p)
	card["fallbackText"] = words + fmt.Sprintf("\n\nSay /approve %s or /reject %s.", p.ID, p.ID)
	m := t.message("")
	m.TextFormat = ""
	m.Summary = "Approval needed: " + p.Action
	m.Attachments = []activity.Attachment{activity.Card(card)}
	return m
}

// askingCard shows the call as it will be made, with a button for yes and for no.
func (t *Turn) askingCard(p *pending) object {
	body := append([]object{heading("May I do this?")}, t.describeCall(p)...)
	body = append(body, small("Expires "+p.Expires.Format("2006-01-02 15:04 MST")+"."))
	card := adaptive(body)
	card["actions"] = []object{p.button("Approve", "positive", verbApprove), p.button("Reject", "destructive", verbReject)}
	return card
}

// decidedCard is the card after the decision.
func (t *Turn) decidedCard(p *pending, d decided) object {
	card := adaptive(append([]object{heading(d.String())}, t.describeCall(p)...))
	card["fallbackText"] = d.String() + "\n\n" + t.inWords(p)
	return card
}

// String says who decided what, and when.
func (d decided) String() string {
	if d.Expired {
		return "Not decided in time, so it was not done"
	}
	word := "Rejected"
	if d.Approved {
		word = "Approved"
	}
	return fmt.Sprintf("%s by %s, %s", word, cmp.Or(visible(d.By), "somebody"), d.At.Format("2006-01-02 15:04 MST"))
}

// describeCall shows the action and its arguments in full, as texts without any
// markup, so that no argument can pose as something else.
func (t *Turn) describeCall(p *pending) []object {
	rows := []object{line(p.Action, "")}
	if action, ok := t.bot.cfg.Actions.Lookup(p.Action); ok {
		rows = append(rows, small(action.Description))
	}
	names, entities := p.entities()
	for _, name := range names {
		rows = append(rows, line(visible(name)+": ", entities[name]))
	}
	if p.Reason != "" {
		rows = append(rows, small(p.Reason))
	}
	return append(rows, small("Asked by "+cmp.Or(visible(p.Asker.Name), "the person of this message")+"."))
}

// inWords is the question as a text, the arguments in code blocks.
func (t *Turn) inWords(p *pending) string {
	var s strings.Builder
	s.WriteString("May I do this? **" + p.Action + "**\n")
	names, entities := p.entities()
	for _, name := range names {
		s.WriteString("\n- " + visible(name) + ": `" + strings.ReplaceAll(entities[name], "`", "\\u0060") + "`")
	}
	if p.Reason != "" {
		s.WriteString("\n\n" + p.Reason)
	}
	return s.String()
}

// entities returns the arguments as JSON, in which every character can be seen.
func (p *pending) entities() (names []string, shown map[string]string) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(p.Entities, &raw); err != nil {
		return nil, nil // it was written by suspend
	}
	shown = make(map[string]string, len(raw))
	for name, value := range raw {
		shown[name] = visible(string(value))
	}
	return slices.Sorted(maps.Keys(shown)), shown
}

// visible writes what is not seen, such as marks that change the direction of
// writing, as escapes.
func visible(text string) string {
	var s strings.Builder
	for _, r := range text {
		if r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r)) {
			s.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		s.WriteRune(r)
	}
	return s.String()
}

// button decides by Action.Execute where the client knows it, else by
// Action.Submit. Both say which call they are for.
func (p *pending) button(title, style, verb string) object {
	data := object{"approval": p.ID, "hash": p.Hash, "verb": verb}
	return object{
		"type": "Action.Execute", "title": title, "style": style, "verb": verb, "data": data,
		"fallback": object{"type": "Action.Submit", "title": title, "style": style, "data": data},
	}
}

func adaptive(body []object) object {
	return object{
		"type":    "AdaptiveCard",
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
		"version": "1.4",
		"body":    body,
	}
}

func heading(text string) object {
	return object{"type": "TextBlock", "text": text, "weight": "bolder", "size": "medium", "wrap": true}
}

// line shows a bold word and a value beside it; neither is read as markdown.
func line(word, value string) object {
	runs := []object{{"type": "TextRun", "text": word, "weight": "bolder"}}
	if value != "" {
		runs = append(runs, object{"type": "TextRun", "text": value, "fontType": "monospace"})
	}
	return object{"type": "RichTextBlock", "inlines": runs}
}

func small(text string) object {
	return object{"type": "RichTextBlock", "inlines": []object{{"type": "TextRun", "text": text, "isSubtle": true, "size": "small"}}}
}
