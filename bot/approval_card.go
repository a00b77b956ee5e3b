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

	// approvalVersion is the schema with which Action.Execute came.
	approvalVersion = "1.4"

	verbApprove = "planbot/approve"
	verbAlways  = "planbot/approve-always"
	verbReject  = "planbot/reject"
)

// question asks for the approval: with a card where the channel draws them, else
// in words.
func (t *Turn) question(p *pending) *activity.Activity {
	words := t.inWords(p)
	if !showsCards(t.Activity.ChannelID) {
		return t.message(words + p.choices("**"))
	}
	card := t.askingCard(p)
	if len(words) <= maxWords {
		card.Fallback = words + p.choices("")
	}
	m := t.message("")
	m.Summary = "Approval needed: " + p.Action
	m.Attachments = []activity.Attachment{card.Attachment()}
	return m
}

// choices says in words how to decide, each way between the marks.
func (p *pending) choices(mark string) string {
	say := func(words ...string) string { return mark + strings.Join(words, " ") + mark }
	approve := say("/approve", p.ID)
	if p.Standing {
		approve += ", " + say("/approve", p.ID, "always") + " to be not asked about exactly this again,"
	}
	return "\n\nSay " + approve + " or " + say("/reject", p.ID) + "."
}

// askingCard shows the call as it will be made, with a button for yes and for no.
func (t *Turn) askingCard(p *pending) activity.Card {
	body := append([]activity.Element{heading("May I do this?")}, t.describeCall(p)...)
	body = append(body, small("Expires "+p.Expires.Format("2006-01-02 15:04 MST")+"."))
	card := activity.NewCard("I ask for the approval of "+p.Action+". What I would do is too long to be shown here: please open this where cards are shown.", body...)
	card.Version = approvalVersion
	buttons := []activity.Action{p.button("Approve", "positive", verbApprove)}
	if p.Standing {
		buttons = append(buttons, p.button("Approve exactly this, always", "", verbAlways))
	}
	return card.With(append(buttons, p.button("Reject", "destructive", verbReject))...)
}

// decidedCard is the card after the decision.
func (t *Turn) decidedCard(p *pending) activity.Card {
	said := p.Decided.String()
	card := activity.NewCard(said, append([]activity.Element{heading(said)}, t.describeCall(p)...)...)
	card.Version = approvalVersion
	return card
}

// String says who decided what, and when.
func (d decided) String() string {
	word := d.word()
	if d.Always {
		word += " for good"
	}
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
func (t *Turn) describeCall(p *pending) []activity.Element {
	rows := []activity.Element{line(p.Action, "")}
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
		s.WriteString("\n\n" + code(visible(p.Reason))) // it may hold names that strangers gave
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

// button says which call it is for.
func (p *pending) button(title, style, verb string) activity.Execute {
	data := decision{Approval: p.ID, Hash: p.Hash, Verb: verb}
	return activity.Execute{Title: title, Style: style, Verb: verb, Data: data}
}

func heading(text string) activity.TextBlock {
	return activity.TextBlock{Text: text, Weight: "bolder", Size: "medium"}
}

// line shows a bold word and a value beside it; neither is read as markdown.
func line(word, value string) activity.RichText {
	runs := activity.RichText{{Text: word, Weight: "bolder"}}
	if value != "" {
		runs = append(runs, activity.TextRun{Text: value, Mono: true})
	}
	return runs
}

func small(text string) activity.RichText {
	return activity.RichText{{Text: text, Subtle: true, Size: "small"}}
}
