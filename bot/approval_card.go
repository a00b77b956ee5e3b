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
	// maxQuestion is how many bytes the message may have that asks for an approval.
	// Teams takes 28 KB of a card.
	maxQuestion = 26 << 10
	// maxWords is how much of it may be the question in words, for a client that
	// draws no cards. A longer one is left to those that do.
	maxWords = 4 << 10

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
	if len(words) <= maxWords {
		card["fallbackText"] = words + fmt.Sprintf("\n\nSay /approve %s or /reject %s.", p.ID, p.ID)
	}
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
func (t *Turn) decidedCard(p *pending) object {
	card := adaptive(append([]object{heading(p.Decided.String())}, t.describeCall(p)...))
	card["fallbackText"] = p.Decided.String()
	return card
}

// String says who decided what, and when.
func (d decided) String() string {
	word := d.word()
	return fmt.Sprintf("%s by %s, %s", strings.ToUpper(word[:1])+word[1:], cmp.Or(visible(d.By), "somebody"), d.At.Format("2006-01-02 15:04 MST"))
}

func (d decided) word() string {
	if d.Approved {
		return "approved"
	}
	return "rejected"
}

// describeCall shows the action and its arguments in full, as texts without any
// markup, so that no argument can pose as something else.
func (t *Turn) describeCall(p *pending) []object {
	rows := []object{line(p.Action, "")}
	if action, ok := t.bot.cfg.Actions.Lookup(p.Action); ok {
		rows = append(rows, small(action.Description))
		for step := range strings.Lines(action.Detail) {
			rows = append(rows, line("", visible(strings.TrimSuffix(step, "\n"))))
		}
	}
	for _, e := range t.entities(p) {
		rows = append(rows, line(e.name+": ", e.value))
	}
	if len(p.Approvers) > 0 {
		rows = append(rows, small("Only an approver of this bot may decide."))
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
	if action, ok := t.bot.cfg.Actions.Lookup(p.Action); ok {
		for step := range strings.Lines(action.Detail) {
			s.WriteString("\n- " + code(visible(strings.TrimSuffix(step, "\n"))))
		}
	}
	for _, e := range t.entities(p) {
		s.WriteString("\n- " + code(e.name) + ": " + code(e.value))
	}
	if p.Reason != "" {
		s.WriteString("\n\n" + p.Reason)
	}
	return s.String()
}

// entity is an argument of a call, in which every character can be seen.
type entity struct{ name, value string }

// entities are the arguments as JSON. Of one that the action does not know it is
// said that it does nothing.
func (t *Turn) entities(p *pending) []entity {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(p.Entities, &raw); err != nil {
		return nil // it was written by suspend
	}
	action, known := t.bot.cfg.Actions.Lookup(p.Action)
	var list []entity
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		e := entity{visible(name), visible(string(raw[name]))}
		if known && action.Schema.Properties[name] == nil {
			e.name += " (not used)"
		}
		list = append(list, e)
	}
	return list
}

// code writes a text so that no markdown in it counts.
func code(text string) string { return "`" + strings.ReplaceAll(text, "`", "\\u0060") + "`" }

// visible writes what is not seen, such as marks that change the direction of
// writing, as escapes.
func visible(text string) string {
	var s strings.Builder
	for _, r := range text {
		if r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r) || slices.Contains(blank, r) || unicode.Is(unicode.Variation_Selector, r)) {
			s.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		s.WriteRune(r)
	}
	return s.String()
}

// blank are letters and symbols that show nothing.
var blank = []rune{0x115f, 0x1160, 0x2800, 0x3164, 0xffa0}

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
