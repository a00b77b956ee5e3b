package approvals

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/state"
)

// approval is a call that a person has to approve, and the decision. Records store it as JSON.
type approval struct {
	ID        string         `json:"id"`
	Action    string         `json:"action"`
	Entities  jsontext.Value `json:"entities,omitempty"` // as the action will get them
	Hash      string         `json:"hash"`               // of the call
	Reason    string         `json:"reason,omitempty"`
	Approvers []string       `json:"approvers,omitempty"` // ids; none: the person who asked
	Standing  bool           `json:"standing,omitzero"`   // may be approved for good
	Expires   time.Time      `json:"expires"`
	CardID    string         `json:"card,omitempty"`     // id of the message that asks
	Decision  *decision      `json:"decision,omitempty"` // nil: none yet, or it expired

	of     *asking
	within time.Duration // how long people have
}

// decision is a person's decision about a call.
type decision struct {
	Approved bool      `json:"approved,omitzero"`
	Always   bool      `json:"always,omitzero"` // never ask about the same call again
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
	Click    string    `json:"click,omitempty"` // the activity that decided
}

const tooLate texts.Text = "This was not decided in time. Nothing was done."

// Kind is what the record waits for.
func (*approval) Kind() string { return "approval" }

// Until is a moment after it expires.
func (a *approval) Until() time.Time { return a.Expires.Add(afterExpiry) }

// Note is what the history says.
func (a *approval) Note() string {
	return "[A person was asked to approve " + a.Action + ", " + a.ID + ". It has not run yet.]"
}

// Failed notes that nobody could be asked.
func (a *approval) Failed(t *turn.Turn) string {
	a.note(t, t, "failed")
	return "[" + a.Action + " needs approval, but nobody could be asked.]"
}

// Shown notes the card.
func (a *approval) Shown(message string) { a.CardID = message }

// Answered reports whether it is decided.
func (a *approval) Answered() (activity string, ok bool) {
	if a.Decision == nil {
		return "", false
	}
	return a.Decision.Click, true
}

// Data is for who asked.
func (a *approval) Data(t *turn.Turn) map[string]any {
	return map[string]any{"action": turn.Title(t, a.Action), "entities": a.Entities}
}

// note notes what became of it.
func (a *approval) note(t *turn.Turn, about turn.Holder, outcome string) {
	turn.NoteFor(t, about, turn.Note{What: "approval", Outcome: outcome, Action: a.Action, Of: a.Entities, ID: a.ID})
}

// decision is the decision in a word.
func (a *approval) decision() string {
	if a.Decision.Approved {
		return "approved"
	}
	return "rejected"
}

// Ask asks those who may decide, with a card if the channel renders them, else in words.
func (a *approval) Ask(ctx context.Context, t *turn.Turn, id string) (*activity.Activity, error) {
	asker, v := t.Activity.From, a.of.viewOf(t)
	a.ID, a.Expires = id, time.Now().Add(a.within).UTC().Truncate(time.Second)
	if turn.PrivateTo(t) != "" && !a.MayDecide(asker, asker) {
		said := t.Translate("Somebody else has to approve this, and they can't see our private messages. Please ask me where they can.")
		return nil, turn.Stop(said + turn.BeforeThat(t))
	}
	if len(a.Approvers) == 0 && asker.ID == "" {
		return nil, turn.Refuse("nobody here can approve it: no person asked for it, and the bot has no approvers")
	}
	m := t.Message("")
	if t.ShowsCards() {
		m.Summary = t.Translate("Approval needed: %s", v.Title(a.Action))
		m.Attachments = []activity.Attachment{a.Card(v).Attachment()}
	} else {
		m = t.Message(a.Words(v))
	}
	if err := message(ctx, t, a.Kind(), m); err != nil {
		return nil, err
	}
	a.note(t, t, "asked")
	t.Count(Counted, "asked")
	zerolog.Ctx(ctx).Info().Str("approval", a.ID).Str("action", a.Action).Msg("waits for approval")
	return m, nil
}

// Resume acts on the decision. Without one, the approval has expired.
func (a *approval) Resume(ctx context.Context, t *turn.Turn) (come turn.Next, err error) {
	v, d := a.of.viewOf(t), a.Decision
	remember(t, a.ID, a.Late(v))
	switch {
	case d == nil:
		t.Count(Counted, "expired")
		a.note(t, t, "expired")
		come = turn.Expired(t, a, "["+a.Action+" was not approved in time. It did not run.]")
	case d.Approved:
		if d.Always {
			list := state.Of[approvals](t.Conversation)
			list.Standing = newest(append(list.Standing, standing{a.Hash, t.Activity.From.ID, d.By, d.At}), maxStanding)
		}
		come = turn.Approved(t, a, a.Action, a.Hash)
	default:
		come, err = turn.Rejected(t, a, a.Action)
	}
	if err == nil && t.ShowsCards() {
		m := t.Message("")
		m.Attachments = []activity.Attachment{a.Closed(v).Attachment()}
		if person := turn.PrivateTo(t); person != "" {
			m.Target(person)
		}
		turn.Redraw(ctx, t, a.CardID, m)
	}
	return come, err
}

// MayDecide reports whether that person may decide about what asker wanted.
func (a *approval) MayDecide(who, asker activity.Account) bool {
	allowed := a.Approvers
	if len(allowed) == 0 {
		allowed = []string{asker.ID, asker.AadObjectID}
	}
	return slices.ContainsFunc(allowed, func(id string) bool {
		return id != "" && (id == who.ID || strings.EqualFold(id, who.AadObjectID))
	})
}

// Decide notes the decision of a click. If the click does not count, nothing changes, and refusal says why to
// the person who clicked.
func (a *approval) Decide(v view, c click, now time.Time) (refusal string) {
	switch {
	case a.Decision != nil:
		return a.Late(v)
	case c.said.Hash != "" && c.said.Hash != a.Hash:
		return v.Say("This card is for a different call. Nothing was done.")
	case now.After(a.Expires):
		return v.Say(tooLate)
	case !a.MayDecide(c.by, v.Asker):
		return v.Say("You can't decide this. Nothing was done.")
	}
	a.Decision = &decision{
		Approved: c.said.Verb != verbReject, Always: c.said.Verb == verbAlways && a.Standing,
		By: cmp.Or(c.by.Name, c.by.ID), At: now.UTC().Truncate(time.Second), Click: c.activity,
	}
	a.CardID = cmp.Or(c.card, a.CardID)
	return ""
}

// Late is what a click reads that comes after the decision, or after the approval expired.
func (a *approval) Late(v view) string {
	if a.Decision == nil {
		return v.Say(tooLate)
	}
	return v.Say("This was already decided: %s.", a.Decision.inWords(v))
}

// inWords says who decided what, and when.
func (d *decision) inWords(v view) string {
	sentence := texts.Text("Rejected by %s, %s")
	switch {
	case d.Approved && d.Always:
		sentence = "Approved for good by %s, %s"
	case d.Approved:
		sentence = "Approved by %s, %s"
	}
	return v.Say(sentence, cmp.Or(titles.Visible(d.By), v.Say("somebody")), v.Clock(d.At))
}

// maxWords is how many bytes of a card's message may be the question in words, for clients that render no
// cards. A longer one is only for clients that do.
const maxWords = 4 << 10

// Card asks with a card. It shows the call as it will be made, with buttons to approve and reject.
func (a *approval) Card(v view) activity.Card {
	press := func(title, style, verb string) activity.Button {
		return button(title, style, data{Approval: a.ID, Hash: a.Hash, Verb: verb})
	}
	buttons := []any{press(v.Say("Approve"), "positive", verbApprove)}
	if a.Standing {
		buttons = append(buttons, press(v.Say("Always approve exactly this"), "", verbAlways))
	}
	card := activity.Card{
		Fallback: v.Say("I need approval for %s. Please open this message in a client that shows cards.", v.Title(a.Action)),
		Body:     append(a.describe(v, v.Say("May I do this?")), small(v.Say("Expires %s.", v.Clock(a.Expires)))),
		Actions:  append(buttons, press(v.Say("Reject"), "destructive", verbReject)), Version: cardVersion,
	}
	if words := a.inWords(v); len(words) <= maxWords {
		card.Fallback = words + a.choices(v, "")
	}
	return card
}

// Words asks in words, where the channel renders no cards.
func (a *approval) Words(v view) string { return a.inWords(v) + a.choices(v, "**") }

// Closed is the card after the decision, or after the approval expired.
func (a *approval) Closed(v view) activity.Card {
	said := v.Say("Not decided in time")
	if a.Decision != nil {
		said = a.Decision.inWords(v)
	}
	return activity.Card{Fallback: said, Body: a.describe(v, said), Version: cardVersion}
}

// choices says in words how to decide, each command between two marks.
func (a *approval) choices(v view, mark string) string {
	say := func(words ...string) string { return mark + strings.Join(words, " ") + mark }
	approve, reject := say("/approve", a.ID), say("/reject", a.ID)
	before := "\n\n"
	if !a.MayDecide(v.Asker, v.Asker) {
		before += v.Say("Only this bot's approvers can decide.")
		if v.Alone { // then nobody reads this who may
			return before
		}
		before += " "
	}
	if a.Standing {
		return before + v.Say("Say %s, %s if I should never ask about exactly this again, or %s.", approve, say("/approve", a.ID, "always"), reject)
	}
	return before + v.Say("Say %s or %s.", approve, reject)
}

// describe shows the action and its arguments in full, as text without markup, so that no argument
// can pose as something else.
func (a *approval) describe(v view, head string) []any {
	rows := []any{heading(head), line(v.Title(a.Action), "")}
	if action, ok := v.Action(a.Action); ok {
		about := small(v.Say(texts.Text(action.Description)))
		about[0].Mono = action.Source.Connection != "" // it cannot pose as a line of the bot
		rows = append(rows, about)
	}
	for _, d := range a.details(v) {
		rows = append(rows, line(d.name, d.value))
	}
	if len(a.Approvers) > 0 {
		rows = append(rows, small(v.Say("Only this bot's approvers can decide.")))
	}
	if a.Reason != "" {
		rows = append(rows, small(a.Reason))
	}
	if v.Program != "" {
		return append(rows, small(v.Program))
	}
	return append(rows, small(v.Say("Asked by %s.", cmp.Or(titles.Visible(v.Asker.Name), v.Say("the person of this message")))))
}

// inWords is the question as a text, with what the call does as code.
func (a *approval) inWords(v view) string {
	var s strings.Builder
	s.WriteString(v.Say("May I do this?") + " **" + v.Title(a.Action) + "**\n")
	for _, d := range a.details(v) {
		s.WriteString("\n- ")
		if name, ok := strings.CutSuffix(d.name, ": "); ok {
			s.WriteString(titles.Code(name) + ": ")
		}
		s.WriteString(titles.Code(d.value))
	}
	if a.Reason != "" {
		s.WriteString("\n\n" + titles.Code(titles.Visible(a.Reason))) // it may include names that strangers chose
	}
	return s.String()
}

// detail is a step of the action, or an argument with its name, with every character visible.
type detail struct{ name, value string }

// details returns the steps of the action and the arguments of the call. It marks an argument that
// the action does not know as not used.
func (a *approval) details(v view) (list []detail) {
	action, ok := v.Action(a.Action)
	if ok {
		for step := range strings.Lines(action.Detail) {
			list = append(list, detail{"", titles.Visible(strings.TrimSuffix(step, "\n"))})
		}
	}
	var entities map[string]any
	dec := json.NewDecoder(bytes.NewReader(a.Entities))
	dec.UseNumber()
	_ = dec.Decode(&entities) // they were encoded for this
	names := slices.Sorted(maps.Keys(entities))
	if ok { // in the order of the Go fields
		order := titles.Order(action.Schema)
		place := func(name string) int {
			if at := slices.Index(order, name); at >= 0 {
				return at
			}
			return len(order)
		}
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	}
	for _, name := range names {
		var property *jsonschema.Schema
		if ok {
			property = action.Schema.Properties[name]
		}
		called := titles.Visible(name)
		switch {
		case ok && property == nil:
			called += " (" + v.Say("not used") + ")"
		case ok:
			called = titles.Visible(v.Say(texts.Text(titles.Of(property, name))))
		}
		list = append(list, detail{called + ": ", v.Value(property, entities[name])})
	}
	return list
}
