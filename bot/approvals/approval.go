package approvals

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/requests"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/plainjson"
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
	Rule      string         `json:"rule,omitempty"`      // by which they are asked; "": not known
	Standing  bool           `json:"standing,omitzero"`   // may be approved for good
	Self      bool           `json:"self,omitzero"`       // who asked counts, too
	Asked     time.Time      `json:"asked,omitzero"`
	Expires   time.Time      `json:"expires"`
	Remind    time.Time      `json:"remind,omitzero"`    // when people are reminded next; zero: never
	CardID    string         `json:"card,omitempty"`     // id of the message that asks
	Clicked   []string       `json:"clicked,omitempty"`  // ids of others that ask, too: such as one that was sent again after a crash
	Decision  *decision      `json:"decision,omitempty"` // nil: none yet, or it expired

	// Quorum is how many people have to approve; 0: one. If it is more, Deciders has the approvers and Approvers has
	// nobody: for earlier releases, to which the first approval is enough.
	Quorum   int          `json:"quorum,omitzero"`
	Deciders []string     `json:"deciders,omitempty"`
	Votes    []decision   `json:"votes,omitempty"` // approvals so far, if one is not enough
	Told     int          `json:"told,omitzero"`   // of how many of them the person knows
	Sent     []sent       `json:"sent,omitempty"`
	Escalate []escalation `json:"escalate,omitempty"` // those to come
	Further  int          `json:"further,omitzero"`   // how many of the policy's escalations have come
	Lost     []string     `json:"lost,omitempty"`     // names of those who have blocked the bot, of whom who asked has not read
	SendBy   string       `json:"sendBy,omitempty"`   // the activity that let others read it
	Again    bool         `json:"again,omitzero"`     // a click that had counted has come again
	New      bool         `json:"new,omitzero"`       // the policy names others now, who are to be asked
	Missed   bool         `json:"missed,omitzero"`    // somebody who may approve it cannot be reached
	Here     []string     `json:"here,omitempty"`     // names of approvers in the conversation; "": not known
	Beside   []string     `json:"beside,omitempty"`   // delegates in the conversation of approvers who are asked, too
	Alone    bool         `json:"alone,omitzero"`     // nobody who may approve it is in the conversation
	Agreed   bool         `json:"send,omitzero"`      // who asked in private has just agreed that others read it
	Why      string       `json:"why,omitempty"`      // they said

	Change  []string `json:"change,omitempty"` // entities that may be changed
	Changed *changed `json:"changed,omitempty"`

	Delegation bool        `json:"delegation,omitzero"` // delegates of approvers may decide
	For        *delegation `json:"for,omitempty"`       // on a card elsewhere: why this person is asked

	of        *asking
	call      *turn.Pending     // until it is asked
	rules     map[string]string // of those who are about to be asked
	unreached []string          // who could not be
	stands    *delegation       // by which the person of this click decides; nil: they are an approver, or may not decide
	met       []string          // ids of the accounts of those who were found
}

// changed is what a person who may approve the call changed in it.
type changed struct {
	By     activity.Account `json:"by"`
	From   jsontext.Value   `json:"from"`            // the entities before all changes
	Last   jsontext.Value   `json:"last,omitempty"`  // and before the last one
	Agreed bool             `json:"agreed,omitzero"` // who asked agrees, but does not approve it alone
	Told   bool             `json:"told,omitzero"`   // to who asked
	Times  int              `json:"times"`           // how often
}

// escalation is when further people are asked, and whom.
type escalation struct {
	At    time.Time `json:"at"`
	To    []string  `json:"to"`
	Names []string  `json:"names,omitempty"` // of those, for who asked in private; "": not known
}

// decision is a person's decision about a call.
type decision struct {
	Approved  bool              `json:"approved,omitzero"`
	Always    bool              `json:"always,omitzero"`    // never ask about the same call again
	Withdrawn bool              `json:"withdrawn,omitzero"` // by who asked
	By        string            `json:"by,omitempty"`
	For       *activity.Account `json:"for,omitempty"`  // the approver in whose place they decided
	ID        string            `json:"id,omitempty"`   // of the account, if it is one of several
	User      string            `json:"user,omitempty"` // its aadObjectId, then
	At        time.Time         `json:"at"`
	Click     string            `json:"click,omitempty"` // the activity that decided
	In        string            `json:"in,omitempty"`    // the conversation of that, if it is for good
}

// nobody is the id of nobody's account.
const nobody = "-"

// always ends the word for a decision that is for good.
const always = "-always"

const tooLate texts.Text = "This was not decided in time. Nothing was done."

// Kind is what the record waits for.
func (*approval) Kind() string { return "approval" }

// Until is when further people are asked or people are reminded, or a moment after it expires.
func (a *approval) Until() time.Time {
	if a.reminds() {
		return a.Remind
	}
	if a.escalates() {
		return a.Escalate[0].At
	}
	return a.Expires.Add(afterExpiry)
}

// escalates reports whether further people are to be asked before it expires.
func (a *approval) escalates() bool {
	return !a.held() && len(a.Escalate) > 0 && a.Escalate[0].At.Before(a.Expires)
}

// asksLater reports whether there is anybody to be asked later.
func (a *approval) asksLater() bool {
	return slices.ContainsFunc(a.Escalate, func(e escalation) bool { return len(e.To) > 0 })
}

// reminds reports whether people are to be reminded before anything else happens.
func (a *approval) reminds() bool {
	if a.held() || a.Remind.IsZero() || !a.Remind.Before(a.Expires) {
		return false
	}
	return !a.escalates() || a.Remind.Before(a.Escalate[0].At)
}

// goesOn reports whether it can still be decided, and people are to be reminded or asked before it expires.
func (a *approval) goesOn() bool {
	return time.Now().Before(a.Expires) && (a.reminds() || a.escalates())
}

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
func (a *approval) Shown(message string) { a.CardID = cmp.Or(a.CardID, message) }

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

// note notes what became of it and, once who asked in private agrees, who is asked now.
func (a *approval) note(t *turn.Turn, about turn.Holder, outcome string) {
	n := turn.Note{What: "approval", Outcome: outcome, Action: a.Action, Of: a.Entities, ID: a.ID}
	for _, s := range a.Sent {
		if outcome == "sent" {
			n.Asked = append(n.Asked, s.byRule())
		}
	}
	turn.NoteFor(t, about, n)
}

// decision is the decision in a word.
func (a *approval) decision() string {
	switch {
	case a.Agreed:
		return "sent"
	case a.Decision == nil:
		return "agreed"
	case a.Decision.Withdrawn:
		return "withdrawn"
	case a.Decision.Always:
		return "approved" + always
	case a.Decision.Approved:
		return "approved"
	}
	return "rejected"
}

// Ask asks those who may decide, with a card if the channel renders them, else in words: in the conversation and,
// whoever is not in it, elsewhere.
func (a *approval) Ask(ctx context.Context, t *turn.Turn, id string) (*activity.Activity, error) {
	asker, v, policy := t.Activity.From, a.of.viewOf(t), a.call.Approval
	a.ID, a.Asked = id, time.Now().UTC().Truncate(time.Second)
	a.Expires = a.Asked.Add(cmp.Or(policy.Within, a.of.within))
	a.Remind = a.of.reminderAfter(a.Asked.Add(noReminder), t.Activity.Zone())
	if len(a.Approvers) == 0 && policy.Find == nil && asker.ID == "" {
		return nil, turn.Refuse("nobody here can approve it: no person asked for it, and the bot has no approvers")
	}
	public := func(list []string) []string { // in private, nobody else in the conversation reads it
		return slices.DeleteFunc(list, func(id string) bool {
			return isPrivate(t) && isChat(id) && baseOf(id) == conversationOf(t.Activity)
		})
	}
	for _, e := range policy.Escalate {
		a.Escalate = append(a.Escalate, escalation{At: a.Asked.Add(e.After), To: public(a.others(e.To, asker))})
	}
	chosen := len(a.Approvers) > 0 || policy.Find != nil
	found, err := a.call.Find(ctx)
	people := a.others(slices.Concat(a.Approvers, found), asker)
	if isPrivate(t) { // nobody else reads it if its person is enough
		own := slices.DeleteFunc(slices.Clone(people), func(id string) bool { return !isOf(id, asker) })
		if len(own) >= max(policy.Quorum, 1) {
			people, a.Escalate = own, nil
		}
	}
	people = public(people)
	if chosen {
		if said := a.fault(ctx, people, policy.Quorum, err); said != "" {
			return nil, turn.Stop(t.Translate(said) + turn.BeforeThat(t))
		}
	}
	a.rules = map[string]string{}
	for _, id := range people {
		switch {
		case slices.Contains(policy.Approvers, id):
			a.rules[id] = byPolicy
		case slices.Contains(found, id):
			a.rules[id] = byFunction
		default:
			a.rules[id] = byList
		}
	}
	a.let(people, chosen, policy.Quorum)
	if err := message(ctx, t, a.Kind(), a.question(t, v, "")); err != nil {
		return nil, err
	}
	if chosen {
		if !isPrivate(t) && requests.Program(t) == "" { // where nobody is asked for a reason, what they said is one
			a.Why = why(t.Text)
		}
		reached, err := a.reach(ctx, t, people)
		for err == nil && len(a.Sent)+len(a.Here)+len(a.Beside) == 0 && len(a.Escalate) > 0 { // nobody would be asked until then
			var further []string
			further, err = a.reachFurther(ctx, t)
			people, reached = append(people, further...), append(reached, further...)
		}
		enough := a.enough(reached, policy.Quorum)
		if err == nil && enough && !a.held() {
			enough, err = a.ask(ctx, t, 0)
		}
		for i := range a.Escalate {
			for _, id := range a.Escalate[i].To {
				if a.held() { // they are to know by whom it will be read
					a.Escalate[i].Names = append(a.Escalate[i].Names, nameOf(ctx, t, id))
				}
			}
		}
		if err == nil && !enough {
			err = cmp.Or(a.drop(ctx, t, t.Activity, t.Activity.Recipient), turn.Stop(t.Translate(unreachable)+turn.BeforeThat(t)))
		}
		if err != nil {
			return nil, err
		}
		a.Alone = len(a.Here)+len(a.Beside) == 0
		list := state.Of[approvals](t.Conversation)
		list.Delegates = list.Delegates || a.Delegation && len(a.Here) > 0
	}
	a.noteAsked(t, "asked", people, 0)
	if len(people) > 0 {
		a.Rule = a.ruleOf(people[0])
	}
	*asks.Of(t) = a.member()
	t.Count(Counted, "asked")
	zerolog.Ctx(ctx).Info().Str("approval", a.ID).Str("action", a.Action).Int("elsewhere", len(a.Sent)).Msg("waits for approval")
	return a.question(t, v, ""), nil
}

// question is the message that asks. in is where the turn waits, if it is shown elsewhere.
func (a *approval) question(t *turn.Turn, v view, in string) *activity.Activity {
	v.Asked = a.asked(t)
	if !t.ShowsCards() {
		return t.Message(a.Words(v))
	}
	m := t.Message("")
	m.Summary = t.Translate("Approval needed: %s", v.Title(a.Action))
	m.Attachments = []activity.Attachment{a.Card(v, in).Attachment()}
	return m
}

// Resume acts on the decision. Without one, the approval has expired.
func (a *approval) Resume(ctx context.Context, t *turn.Turn) (come turn.Next, err error) {
	v, d := a.of.viewOf(t), a.Decision
	if a.Again {
		a.Again = false
		if d == nil && time.Now().Before(a.Expires) {
			return turn.WaitOn(t, a)
		}
	}
	a.rules = map[string]string{}
	switch {
	case d != nil:
	case a.Agreed:
		return a.askHeld(ctx, t)
	case a.Changed != nil && !a.Changed.Told:
		return a.tellChanged(ctx, t)
	case a.Told < len(a.Votes), a.New, len(a.Lost) > 0:
		return a.tellNews(ctx, t)
	case a.goesOn():
		return a.goOn(ctx, t)
	}
	if err := a.close(ctx, t, t.Activity); err != nil {
		return come, err
	}
	remember(t, a, a.ID, a.Late(v), a.cards())
	turn.CountTook(t, DecidedAfter, a.decidedBy(), time.Since(a.Asked))
	switch {
	case d == nil:
		t.Count(Counted, "expired")
		a.note(t, t, "expired")
		come = turn.Expired(t, a, "["+a.Action+" was not approved in time. It did not run.]")
	case d.Approved:
		if d.Always {
			list := state.Of[approvals](t.Conversation)
			votes := a.Votes
			if len(votes) == 0 {
				votes = []decision{*d}
			}
			list.Standing = newest(append(list.Standing, standing{a.Hash, t.Activity.From.ID, d.By, d.At, votes}), maxStanding)
		}
		if a.Changed == nil {
			come = turn.Approved(t, a, a.Action, a.Hash)
			break
		}
		changes := "[Before it was approved, a person changed it: " + a.changes(v) + ". Do not do it again as it was.]\n"
		come = turn.ApprovedChanged(t, a, a.Action, a.Hash, changes)
	default:
		come, err = turn.Rejected(t, a, a.Action)
	}
	if err == nil {
		a.redraw(ctx, t, a.Closed(v))
	}
	return come, err
}

// cards are the ids of the messages that asked in the conversation of the turn, as far as the record knows them.
func (a *approval) cards() []string { return append([]string{a.CardID}, a.Clicked...) }

// redraw replaces the cards in the conversation of the turn: the one that asked, and those that were shown again.
func (a *approval) redraw(ctx context.Context, t *turn.Turn, card activity.Card) {
	if !t.ShowsCards() {
		return
	}
	cards := a.cards()
	for _, one := range state.Peek[approvals](t.Conversation).Elsewhere {
		if one.ID == a.ID {
			cards = append(cards, one.Again...)
		}
	}
	for _, id := range once(cards) {
		turn.Redraw(ctx, t, id, replacing(t, "", card))
	}
}

// deciders are the ids of those who may decide; none: the person who asked.
func (a *approval) deciders() []string {
	if a.Quorum > 1 {
		return a.Deciders
	}
	return a.Approvers
}

// let sets who may decide, and how many of them it takes. chosen says that somebody names them; else none of them is the
// person who asked.
func (a *approval) let(people []string, chosen bool, quorum int) {
	if chosen && len(people) == 0 {
		people = []string{nobody}
	}
	a.Quorum, a.Deciders, a.Approvers = 0, nil, people
	if quorum > 1 {
		a.Quorum, a.Deciders, a.Approvers = quorum, people, []string{nobody}
	}
}

// MayDecide reports whether that person may decide about what asker wanted, in that conversation.
func (a *approval) MayDecide(who, asker activity.Account, in string) bool {
	allowed := a.deciders()
	if a.stands != nil && same(a.stands.To, who) {
		return true
	}
	own := isOf(asker.ID, who) || isOf(asker.AadObjectID, who)
	if len(allowed) == 0 {
		return own
	}
	return slices.ContainsFunc(allowed, func(id string) bool {
		switch {
		case own && !a.Self: // the list has them only in records of earlier releases
			return isOf(id, asker)
		case strings.HasPrefix(id, threads):
			return baseOf(id) == in
		}
		return isOf(id, who)
	})
}

// Decide notes the decision of a click. If the click does not count, nothing changes, and refusal says why to
// the person who clicked.
func (a *approval) Decide(v view, c *click, now time.Time) (refusal string) {
	approved, sends := c.said.Verb != verbReject, c.said.Verb == verbSend
	for i, vote := range a.Votes { // who has become an approver does not decide for another one any more
		if vote.For != nil && slices.ContainsFunc(a.deciders(), vote.isBy) {
			a.Votes[i].For = nil
		}
	}
	own := c.by.ID != "" && c.by.ID == v.Asker.ID
	agrees := approved && own && a.Changed != nil && !a.Changed.Agreed && !a.MayDecide(c.by, v.Asker, c.in)
	withdrawn := !approved && c.by.ID != "" && c.by.ID == v.Asker.ID && !a.MayDecide(c.by, v.Asker, c.in)
	only := agrees && c.said.Hash == "" && c.version == "" && a.Changed.Told && a.Changed.Times == 1 // of one change they read
	switch {
	case a.Decision != nil:
		return a.Late(v)
	case c.said.Hash != "" && c.said.Hash != a.Hash:
		return v.Say("This card is for a different call. Nothing was done.")
	case approved && !a.isMeant(c) && !only:
		return v.Say("What you are asked to approve was changed. Please look at it again.")
	case now.After(a.Expires):
		return v.Say(tooLate)
	case sends && a.held() && c.by.ID != "" && c.by.ID == v.Asker.ID:
		a.Agreed, a.Why, a.SendBy = true, c.why(), c.activity
		a.clicked(c)
		return ""
	case sends && !a.held() && c.by.ID == v.Asker.ID:
		return v.Say("I've already asked them.")
	case withdrawn || agrees:
	case sends || !a.MayDecide(c.by, v.Asker, c.in):
		return v.Say("You can't decide this. Nothing was done.")
	case slices.ContainsFunc(a.Votes, func(d decision) bool { return d.ID == c.by.ID }) && approved:
		if !a.agreed(v.Asker) { // the policy may want fewer people than it did
			return v.Say("You've already approved this.")
		}
		a.Votes = slices.DeleteFunc(a.Votes, func(d decision) bool { return d.ID == c.by.ID })
	case approved && a.voteFor(a.seat(c.by)) != nil:
		return v.Say("%s has already approved this.", a.voteFor(a.seat(c.by)).who(v, plain))
	}
	d := decision{
		Approved: approved, Always: c.said.Verb == verbAlways && a.Standing && a.stands == nil, Withdrawn: withdrawn,
		By: cmp.Or(c.by.Name, c.by.ID), At: now.UTC().Truncate(time.Second), Click: c.activity,
	}
	if a.stands != nil {
		d.For = &a.stands.By
	}
	if d.Always {
		d.ID, d.User, d.In = c.by.ID, c.by.AadObjectID, c.in
	}
	a.clicked(c)
	if agrees {
		a.Changed.Agreed = true
	}
	if approved && (a.Quorum > 1 || a.Changed != nil) {
		d.ID, d.User = c.by.ID, c.by.AadObjectID
		if !agrees {
			a.Votes = append(a.Votes, d)
		}
		if !a.agreed(v.Asker) {
			return ""
		}
		var all []string
		for _, vote := range a.Votes {
			all = append(all, vote.who(v, func(name string) string { return name }))
			d.Always = d.Always && vote.Always
		}
		if agrees {
			all = append(all, d.By)
		}
		d.By, d.For = strings.Join(all, ", "), nil
	}
	a.Decision = &d
	return ""
}

// counted reports whether a click that did not decide it has counted before: who died as it was answered had saved that.
func (a *approval) counted(c *click) bool {
	voted := slices.ContainsFunc(a.Votes, func(d decision) bool { return d.Click == c.activity })
	return a.Decision == nil && c.activity != "" && (c.activity == a.SendBy || voted)
}

// clicked notes the card that somebody clicked, so that it ends with the others, also if its id was lost.
func (a *approval) clicked(c *click) {
	if c.here {
		a.CardID = cmp.Or(a.CardID, c.card)
		a.Clicked = with(a.Clicked, c.card)
		return
	}
	for i := range a.Sent {
		if baseOf(a.Sent[i].Conversation) == c.in {
			a.Sent[i].Clicked = with(a.Sent[i].Clicked, c.card)
		}
	}
}

// agreed reports whether as many have approved it as have to: of what somebody changed not that person alone, unless it
// is who asked.
func (a *approval) agreed(asker activity.Account) bool {
	if len(a.Votes) < max(a.Quorum, 1) {
		return false
	}
	if a.Changed == nil || a.Changed.Agreed {
		return true
	}
	editor := a.Changed.By.ID
	return editor == asker.ID || slices.ContainsFunc(a.Votes, func(d decision) bool { return d.ID != editor })
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
	case d.Withdrawn:
		sentence = "Taken back by %s, %s"
	case d.Approved && d.Always:
		sentence = "Approved for good by %s, %s"
	case d.Approved:
		sentence = "Approved by %s, %s"
	}
	return v.Say(sentence, d.who(v, titles.Visible), v.Clock(d.At))
}

// isBy reports whether the id is one of who decided.
func (d *decision) isBy(id string) bool {
	return id != "" && (id == d.ID || strings.EqualFold(id, d.User))
}

// who says who decided, and in whose place; show makes a name safe.
func (d *decision) who(v view, show func(string) string) string {
	by := cmp.Or(show(d.By), v.Say("somebody"))
	if d.For == nil {
		return by
	}
	return v.Say("%s (for %s)", by, cmp.Or(show(d.For.Name), v.Say("an approver")))
}

// maxWords is how many bytes of a card's message may be the question in words, for clients that render no
// cards. A longer one is only for clients that do.
const maxWords = 4 << 10

// Card asks with a card. It shows the call as it will be made, with buttons to approve and reject. in is where the turn
// waits, if the card is shown elsewhere.
func (a *approval) Card(v view, in string) activity.Card {
	press := func(title, style, verb string) activity.Button {
		return button(title, style, data{Approval: a.ID, Hash: a.Hash, Verb: verb, In: in})
	}
	buttons := []any{press(v.Say("Approve"), "positive", verbApprove)}
	if a.Standing && a.For == nil { // a delegate decides for a while only
		buttons = append(buttons, press(v.Say("Always approve exactly this"), "", verbAlways))
	}
	buttons = append(buttons, press(v.Say("Reject"), "destructive", verbReject))
	body := a.describe(v, a.head(v))
	fields := a.fields(v)
	if a.Alone { // nobody who may approve it sees this card
		buttons, fields = []any{press(v.Say("Take it back"), "", verbReject)}, nil
		if a.asksAgain() {
			buttons = slices.Insert(buttons, 0, any(press(v.Say("Approve"), "positive", verbApprove)))
		}
	}
	if len(fields) > 0 && !a.held() {
		body = append(body, small(v.Say("You can change this before you approve it:")))
		for i := range fields {
			body = append(body, input(v, &fields[i], changeInput+fields[i].Name))
		}
	}
	if a.held() {
		buttons = []any{press(v.Say("Send"), "positive", verbSend), press(v.Say("Don't send"), "", verbReject)}
		body = append(body, small(v.Say("They read all of this.")), map[string]any{
			"type": "Input.Text", "id": whyInput, "label": v.Say("Why (optional)"), "maxLength": maxWhy, "isMultiline": true,
		})
	}
	card := activity.Card{
		Fallback: v.Say("I need approval for %s. Please open this message in a client that shows cards.", v.Title(a.Action)),
		Body:     append(body, small(v.Say("Expires %s.", v.Clock(a.Expires)))),
		Actions:  buttons, Version: cardVersion,
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
	switch {
	case a.Decision != nil:
		said = a.Decision.inWords(v)
	case a.asksAgain() && time.Now().Before(a.Expires):
		said = v.Say("%s changed and approved this. Somebody else has to agree.", titles.Visible(a.Changed.By.Name))
	case len(a.Votes) > 0 && time.Now().Before(a.Expires):
		last := a.Votes[len(a.Votes)-1]
		said = v.Say("%s approved this. It needs %s approvals.", last.who(v, titles.Visible), count(a.Quorum))
	}
	return activity.Card{Fallback: said, Body: a.describe(v, said), Version: cardVersion}
}

// head is what is asked.
func (a *approval) head(v view) string {
	switch {
	case a.held() && a.asksLater():
		var later []string
		for _, e := range a.Escalate {
			for i := range e.To {
				name := ""
				if i < len(e.Names) {
					name = plain(e.Names[i])
				}
				later = append(later, cmp.Or(name, v.Say("an approver")))
			}
		}
		return v.Say("May I ask %s, and later %s, to approve this?", v.Asked, strings.Join(slices.Compact(later), ", "))
	case a.held():
		return v.Say("May I ask %s to approve this?", v.Asked)
	}
	return v.Say("May I do this?")
}

// version is what its id ends with in words, once the call was changed: they are for the call as it is now, as a card is.
func (a *approval) version() string {
	if a.Changed == nil {
		return ""
	}
	return "-" + count(a.Changed.Times)
}

// isMeant reports whether a click is about the call as it is now.
func (a *approval) isMeant(c *click) bool {
	return c.said.Hash == "" && c.version == a.version() || c.said.Hash == a.Hash
}

// choices says in words how to decide, each command between two marks.
func (a *approval) choices(v view, mark string) string {
	say := func(words ...string) string { return mark + strings.Join(words, " ") + mark }
	id := a.ID + a.version()
	approve, reject := say("/approve", id), say("/reject", a.ID)
	before := "\n\n"
	if a.held() {
		send := say("/approve", a.ID, "send")
		return before + v.Say("They read all of this.") + " " + v.Say("Say %s, and why if you like, or %s.", send, reject)
	}
	if v.Asked != "" {
		before += v.Say("I've asked %s.", v.Asked) + " "
	}
	if a.Missed {
		before += v.Say(missedSome) + " "
	}
	if a.asksAgain() {
		before += v.Say("If you agree, say %s.", approve) + " "
	}
	if fields := a.fields(v); len(fields) > 0 && !a.Alone {
		before += v.Say("To change something first, say for example %s.", say("/approve", id, fields[0].Name+"=…")) + " "
	}
	if a.Alone {
		return before + v.Say("To take it back, say %s.", reject)
	}
	if !a.MayDecide(v.Asker, v.Asker, "") {
		before += a.whoDecides(v) + " "
	}
	if a.Standing && a.For == nil {
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
	for _, d := range a.details(v, a.Entities) {
		rows = append(rows, line(d.name, d.value))
	}
	if a.Changed != nil {
		rows = append(rows, small(v.Say(wasChanged, cmp.Or(titles.Visible(a.Changed.By.Name), v.Say("somebody")), a.changes(v))))
	}
	if v.Asked != "" && !a.held() {
		rows = append(rows, small(v.Say("I've asked %s.", v.Asked)))
	}
	if a.Missed {
		rows = append(rows, small(v.Say(missedSome)))
	}
	if len(a.deciders()) > 0 && !a.Alone {
		rows = append(rows, small(a.whoDecides(v)))
	}
	if a.Quorum > 1 {
		rows = append(rows, small(v.Say("It needs %s approvals.", count(a.Quorum))))
	}
	if a.For != nil {
		rows = append(rows, small(a.For.why(v, titles.Visible)))
	}
	if a.Reason != "" {
		rows = append(rows, small(a.Reason))
	}
	if a.Why != "" {
		rows = append(rows, line(v.Say("Why")+": ", titles.Visible(a.Why)))
	}
	if v.Place != "" {
		rows = append(rows, small(v.Place))
	}
	if v.Program != "" {
		return append(rows, small(v.Program))
	}
	return append(rows, small(v.Say("Asked by %s.", cmp.Or(titles.Visible(v.Asker.Name), v.Say("the person of this message")))))
}

// inWords is the question as a text, with what the call does as code.
func (a *approval) inWords(v view) string {
	var s strings.Builder
	s.WriteString(a.head(v) + " **" + v.Title(a.Action) + "**\n")
	for _, d := range a.details(v, a.Entities) {
		s.WriteString("\n- ")
		if name, ok := strings.CutSuffix(d.name, ": "); ok {
			s.WriteString(titles.Code(name) + ": ")
		}
		s.WriteString(titles.Code(d.value))
	}
	if a.Changed != nil {
		s.WriteString("\n\n" + a.saysChange(v))
	}
	if a.For != nil {
		s.WriteString("\n\n" + a.For.why(v, plain))
	}
	if a.Reason != "" {
		s.WriteString("\n\n" + titles.Code(titles.Visible(a.Reason))) // it may include names that strangers chose
	}
	if v.Place != "" {
		s.WriteString("\n\n" + v.Place)
	}
	if a.Why != "" {
		s.WriteString("\n\n" + v.Say("Why") + ": " + titles.Code(titles.Visible(a.Why)))
	}
	return s.String()
}

// whoDecides says who in the conversation may decide.
func (a *approval) whoDecides(v view) string {
	if len(a.Here)+len(a.Beside) == 0 || slices.Contains(a.Here, "") {
		return v.Say("Only this bot's approvers can decide.")
	}
	return v.Say("Who can decide: %s.", strings.Join(slices.Concat(a.Here, a.Beside), ", "))
}

// count is a number of people.
func count(n int) string { return strconv.Itoa(n) }

// detail is a step of the action, or an argument with its name, with every character visible.
type detail struct{ name, value string }

// details returns the steps of the action and the arguments of the call. It marks an argument that
// the action does not know as not used.
func (a *approval) details(v view, of jsontext.Value) (list []detail) {
	action, ok := v.Action(a.Action)
	if ok {
		for step := range strings.Lines(action.Detail) {
			list = append(list, detail{"", titles.Visible(strings.TrimSuffix(step, "\n"))})
		}
	}
	entities := entitiesOf(of)
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

// entitiesOf decodes the entities of a call.
func entitiesOf(raw jsontext.Value) (entities map[string]any) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	_ = dec.Decode(&entities) // they were encoded for this
	return entities
}

// changeInput begins the ids of inputs for what may be changed.
const changeInput = "change:"

// fields are the inputs for what may be changed: of texts, numbers, and yes or no.
func (a *approval) fields(v view) (all []actions.Field) {
	action, ok := v.Action(a.Action)
	if !ok {
		return nil
	}
	entities := entitiesOf(a.Entities)
	for _, name := range a.Change {
		property := action.Schema.Properties[name]
		if property == nil {
			continue
		}
		f := actions.Field{Name: name, Title: titles.Of(property, name), Min: property.Minimum, Max: property.Maximum}
		switch property.Type {
		case "string":
			for _, one := range property.Enum {
				f.Choices = append(f.Choices, actions.Choice{Value: fmt.Sprint(one)})
			}
		case "number":
			f.Kind = actions.NumberField
		case "integer":
			f.Kind = actions.IntegerField
		case "boolean":
			f.Kind = actions.YesNoField
		default:
			continue
		}
		f.Default = entities[name]
		text := fmt.Sprint(f.Default)
		f.Required = f.Default != nil && strings.TrimSpace(text) != "" // an empty input does not approve the call as it was
		if n := utf8.RuneCountInString(text); f.Kind == actions.TextField && f.Default != nil && n > f.Most() {
			f.MaxLength = n // else it could not be approved as it is
		}
		f.Long = f.Kind == actions.TextField && strings.ContainsAny(text, "\r\n") // else clients drop the line breaks
		all = append(all, f)
	}
	return all
}

// changes says what was changed, from what to what.
func (a *approval) changes(v view) string {
	return cmp.Or(a.changesSince(v, a.Changed.From), a.changesSince(v, a.Changed.Last), "–")
}

func (a *approval) changesSince(v view, from jsontext.Value) string {
	var all []string
	before := a.details(v, from)
	for _, now := range a.details(v, a.Entities) {
		was := detail{}
		if at := slices.IndexFunc(before, func(d detail) bool { return d.name == now.name }); at >= 0 {
			was = before[at]
		}
		if now.name != "" && was.value != now.value {
			all = append(all, now.name+was.value+" → "+now.value)
		}
	}
	return strings.Join(all, "; ")
}

const wasChanged texts.Text = "%s changed this: %s."

// saysChange says what was changed, in markdown.
func (a *approval) saysChange(v view) string {
	return v.Say(wasChanged, cmp.Or(plain(a.Changed.By.Name), v.Say("somebody")), titles.Code(a.changes(v)))
}

// asksAgain reports whether who asked, or another approver, has to agree to what one approver has changed.
func (a *approval) asksAgain() bool {
	return a.Changed != nil && !a.Changed.Agreed && a.Quorum <= 1 && a.Decision == nil
}

// change changes the call as the inputs of a click want it, if its person may decide. The approvals so far do not count any
// more, and the policy is asked about the changed call. did is false if the call stays as it is.
func (a *approval) change(ctx context.Context, t *turn.Turn, w *turn.Waiting, v view, c *click) (did bool, refusal string) {
	approves := c.said.Verb == verbApprove || c.said.Verb == verbAlways
	if !approves || !a.isMeant(c) || a.Decision != nil || a.held() || time.Now().After(a.Expires) || !a.MayDecide(c.by, v.Asker, c.in) {
		return false, ""
	}
	values, refusal := a.wanted(v, c)
	if refusal != "" || len(values) == 0 {
		return false, refusal
	}
	call, err := w.Change(ctx, t, values)
	_, wrong := errors.AsType[*actions.EntityError](err)
	if wrong || err == nil && (call == nil || faultOf(call.Approval, call.Approval.Approvers, a.of.within) != "") {
		return false, v.Say(noChange)
	}
	asked, before := len(a.Sent)+len(a.Here), a.deciders()
	if refusal := a.consult(ctx, t, w, call, err, time.Now()); refusal != "" {
		return false, refusal
	}
	hash, err := call.Hash(ctx)
	raw, fault := plainjson.Marshal(call.Entities)
	if err = cmp.Or(err, fault); err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Str("approval", a.ID).Msg("a change of a call does not count")
		return false, v.Say(noChange)
	}
	change := changed{By: bare(c.by), From: a.Entities, Last: a.Entities, Times: 1}
	if a.Changed != nil {
		change.From, change.Times = a.Changed.From, a.Changed.Times+1
	}
	a.Entities, a.Hash, a.Changed = raw, hash, &change
	a.Votes, a.Told, a.Standing = nil, 0, false
	a.Reason = cmp.Or(call.Approval.Reason, a.Reason)
	private := w.Asked.Targeted() || w.Asked.Conversation.Personal()
	others := slices.ContainsFunc(a.deciders(), func(id string) bool { return !slices.Contains(before, id) })
	shown, err := a.question(t, v, "").Encode()
	if err != nil || len(shown) > maxMessage || private && (others || a.Quorum > asked) { // who asked let only these people read it
		return false, v.Say(noChange)
	}
	c.said.Hash = hash
	return true, ""
}

// untouched reports whether an input still says what was in it. Clients write line breaks, and numbers, as they like.
func untouched(was string, given any) bool {
	now := fmt.Sprint(given)
	if _, ok := given.(json.Number); ok {
		before, err := strconv.ParseFloat(strings.TrimSpace(was), 64)
		after, wrong := strconv.ParseFloat(now, 64)
		return now == was || err == nil && wrong == nil && before == after && math.Abs(after) < 1<<53
	}
	fold := func(text, by string) string {
		return strings.TrimSpace(strings.NewReplacer("\r\n", by, "\r", by, "\n", by).Replace(text))
	}
	now = fold(now, "\n")
	return now == fold(was, "\n") || now == fold(was, " ") || now == fold(was, "")
}

const noChange texts.Text = "It can't be changed like this. Nothing was done."

// wanted are the entities that a click changes.
func (a *approval) wanted(v view, c *click) (values map[string]any, refusal string) {
	form, entities := question{}, entitiesOf(a.Entities)
	inputs := map[string]json.RawMessage{}
	for _, f := range a.fields(v) {
		raw, given := c.inputs[changeInput+f.Name]
		if given {
			inputs[inputID(len(form.Form.Fields))] = raw
			form.Form.Fields = append(form.Form.Fields, f)
		}
	}
	if c.change == "" && a.changesMore(c.inputs, form.Form.Fields) {
		return nil, v.Say(noChange)
	}
	if c.change != "" && len(inputs) == 0 {
		return nil, v.Say("%s can't be changed.", titles.Code(titles.Visible(c.change)))
	}
	values, refusal = form.values(v, inputs)
	maps.DeleteFunc(values, func(name string, value any) bool {
		was, had := entities[name]
		return had && untouched(fmt.Sprint(was), value) || !had && (value == false || value == "")
	})
	return values, refusal
}

// changesMore reports whether inputs of a card, made when the policy allowed it, change what may not be changed now.
func (a *approval) changesMore(inputs map[string]json.RawMessage, fields []actions.Field) bool {
	entities := entitiesOf(a.Entities)
	for id, raw := range inputs {
		name, changes := strings.CutPrefix(id, changeInput)
		allowed := slices.ContainsFunc(fields, func(f actions.Field) bool { return f.Name == name })
		if !changes || allowed {
			continue
		}
		var given any
		if json.Unmarshal(raw, &given) != nil || fmt.Sprint(given) != fmt.Sprint(cmp.Or(entities[name], any(""))) {
			return true
		}
	}
	return false
}
