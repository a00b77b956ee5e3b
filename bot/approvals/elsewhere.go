package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/requests"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/state"
)

// What this file is about: who may approve and is not in the conversation is asked in their own chat with the bot, or in
// a chat that the policy names. The turn waits in its own conversation all the same: a click elsewhere finds it there, and
// the outcome closes the cards elsewhere.

const (
	// maxElsewhere is how many questions from other conversations a conversation remembers, and maxAgain how many cards
	// of one that were shown again.
	maxElsewhere, maxAgain = 100, 10
	// over is what is sent elsewhere at the end, and reminder begins what is sent each day.
	over, reminder = "over", "remind "
	// noReminder is how long nobody is reminded of what was just asked.
	noReminder = time.Hour
	// threads begins the ids of chats and channels, as opposed to those of people.
	threads = "19:"
)

// sent is a question that was sent to an approver elsewhere.
type sent struct {
	To           string `json:"to"`             // the approver, as the policy names them
	Name         string `json:"name,omitempty"` // "": not known
	Conversation string `json:"conversation"`
	Held         bool   `json:"held,omitzero"` // until who asked in private agrees

	At   time.Time `json:"at,omitzero"`
	Rule string    `json:"rule,omitempty"` // why they are asked

	Clicked []string `json:"clicked,omitempty"` // ids of cards there, which nobody may know there

	For     *delegation `json:"for,omitempty"`    // by which To decides for an approver; nil: To is one
	Instead bool        `json:"instead,omitzero"` // that approver cannot be asked
}

// asked is a question from another conversation, as the state of the approver's one keeps it, or one that was shown again.
type asked struct {
	ID    string   `json:"id"`
	In    string   `json:"in"`              // where the turn waits
	Card  string   `json:"card,omitempty"`  // id of the message that asks
	Again []string `json:"again,omitempty"` // ids of those that ask again
	Over  bool     `json:"over,omitzero"`   // it is decided, and its cards are closed
}

// add remembers a question. If there is no more room, the oldest that is over goes first, else the oldest, whose cards end.
func (list *approvals) add(ctx context.Context, t *turn.Turn, one asked) {
	list.Elsewhere = append(list.Elsewhere, one)
	if len(list.Elsewhere) > maxElsewhere {
		at := max(0, slices.IndexFunc(list.Elsewhere, func(known asked) bool { return known.Over }))
		gone := list.Elsewhere[at]
		list.Elsewhere = slices.Delete(list.Elsewhere, at, at+1)
		if !gone.Over {
			leadToInbox(ctx, t, gone.cards()...)
		}
	}
}

// cards are the ids of the messages that ask.
func (one asked) cards() []string { return append([]string{one.Card}, one.Again...) }

// leadToInbox takes the buttons from cards that nobody will know of from now on.
func leadToInbox(ctx context.Context, t *turn.Turn, cards ...string) {
	for _, id := range cards {
		turn.Redraw(ctx, t, id, replacing(t, "", closing(t.Translate(inInbox, "**/approvals**"))))
	}
}

const inInbox texts.Text = "Approvals are waiting for you. Say %s to see them."

// visit is the record that asks elsewhere, or says there how it ended.
type visit struct {
	Approval approval         `json:"approval"`
	In       string           `json:"in"` // where the turn waits
	Asker    activity.Account `json:"asker"`
	Program  string           `json:"by,omitempty"`     // the name of the one that asks on their behalf
	Locale   string           `json:"locale,omitempty"` // theirs, for somebody whose language is not known
	Place    string           `json:"place,omitempty"`  // the name of the conversation where it was asked; "": not known
	Kind     string           `json:"kind,omitempty"`   // of that conversation
	Lost     string           `json:"gone,omitempty"`   // a conversation that got no card: this only tells the turn that waits
	Over     bool             `json:"over,omitzero"`
	Remind   bool             `json:"remind,omitzero"`
	Redrawn  bool             `json:"redrawn,omitzero"` // its cards were replaced, for a call that was changed
	Again    []asked          `json:"again,omitempty"`  // what [Inbox] asks again, in the order of its messages
	Begun    *delegation      `json:"begun,omitempty"`  // this only tells the delegate
}

var visits = turn.NewSlot[visit](featureName)

// isOf reports whether the id is one of that person's.
func isOf(id string, who activity.Account) bool {
	return id != "" && (id == who.ID || strings.EqualFold(id, who.AadObjectID))
}

// baseOf is the id of a chat or channel without its thread.
func baseOf(id string) string {
	c := activity.Conversation{}
	c.ID = id
	return c.BaseID()
}

// others are those people of a list who may decide, each once: not who asked, unless they count, too.
func (a *approval) others(list []string, asker activity.Account) (people []string) {
	for _, id := range list {
		twice := slices.ContainsFunc(people, func(other string) bool { return strings.EqualFold(id, other) })
		if !twice && strings.TrimSpace(id) != "" && (a.Self || !isOf(id, asker)) {
			people = append(people, id)
		}
	}
	return people
}

// fault says why nobody can be asked, to the person and the log. err is why nobody was found. "": they can.
func (a *approval) fault(ctx context.Context, people []string, quorum int, err error) (said texts.Text) {
	switch {
	case err != nil:
		said = "I can't find out who may approve this, so I didn't do it."
	case len(people) > MaxApprovers:
		said = "More people may approve this than I can ask, so I didn't do it. Whoever runs me can name a channel instead."
	case !a.enough(people, quorum):
		said = unreachable
	default:
		return ""
	}
	zerolog.Ctx(ctx).Error().Err(err).Str("action", a.Action).Int("approvers", len(people)).Msg("nobody can be asked for an approval")
	return said
}

// judge asks the policy again: who may decide, and how many of them it takes, may have changed. If that cannot be found
// out, nothing changes, and refusal says so.
func (a *approval) judge(ctx context.Context, t *turn.Turn, w *turn.Waiting, c *click) (refusal string) {
	takesBack := c.said.Verb == verbReject && c.by.ID == w.Asked.From.ID
	if a.Decision != nil || takesBack || c.said.Verb == verbSend {
		return ""
	}
	call, err := w.Pending(ctx, t)
	return a.consult(ctx, t, w, call, err, time.Now())
}

// consult lets those decide whom the policy names at that time for the call, whose error is err. If they are not known,
// refusal says so.
func (a *approval) consult(
	ctx context.Context, t *turn.Turn, w *turn.Waiting, call *turn.Pending, err error, now time.Time,
) (refusal string) {
	if err == nil && call == nil || err == nil && !call.Approval.Required { // that ends the turn, or makes the call
		return ""
	}
	var found []string
	if err == nil {
		found, err = call.Find(ctx)
	}
	if err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Str("approval", a.ID).Msg("the policy does not say who may decide: no click counts")
		return t.Translate(whoMayDecide)
	}
	policy := call.Approval
	people, self := a.of.approversOf(policy)
	people = slices.Concat(people, found)
	chosen := len(people) > 0 || policy.Find != nil || policy.Approvers != nil
	for i, e := range policy.Escalate {
		if i < a.Further || !now.Before(a.Asked.Add(e.After)) {
			people = append(people, e.To...)
		}
	}
	a.Self, a.Standing, a.Change = self, a.Standing && policy.Standing, policy.Change
	a.Delegation = policy.Delegation
	a.let(a.others(people, w.Asked.From), chosen, policy.Quorum)
	if err := a.standIn(ctx, t, w.Asked.From); err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Str("approval", a.ID).Msg("a decision does not count: delegations cannot be read")
		return t.Translate(whoMayDecide)
	}
	return ""
}

// known are those who may decide, or will be asked later.
func (a *approval) known() []string {
	known := slices.Clone(a.deciders())
	for _, e := range a.Escalate {
		known = append(known, e.To...)
	}
	return known
}

// namesOthers reports whether the policy names others than were known before.
func (a *approval) namesOthers(known []string) bool {
	return !a.held() && slices.ContainsFunc(a.unasked(), func(id string) bool { return !slices.Contains(known, id) })
}

const whoMayDecide texts.Text = "I can't find out who may approve this, so nothing was done. Please try again later."

// The rules by which people are asked.
const (
	byPolicy     = "policy"     // it names them
	byFunction   = "function"   // of the policy, which found them
	byList       = "list"       // of the bot: BOT_APPROVERS
	byEscalation = "escalation" // nobody had decided
	byChange     = "change"     // of the call, for which the policy was asked again
	byDelegation = "delegation" // of an approver
)

// ruleOf is the rule by which an approver is asked.
func (a *approval) ruleOf(id string) string { return cmp.Or(a.rules[id], byChange) }

// decidedBy is the rule by which who decided was asked.
func (a *approval) decidedBy() string {
	d := a.Decision
	switch {
	case d == nil:
		return "nobody"
	case d.Withdrawn, len(a.deciders()) == 0:
		return "requester"
	case d.For != nil:
		return byDelegation
	}
	for _, s := range a.Sent {
		if s.For == nil && (s.To == d.ID || s.To == d.User || s.Name != "" && s.Name == d.By) {
			return s.Rule
		}
	}
	return cmp.Or(a.Rule, byPolicy)
}

// waitingSet has a member for each approval that waits, in all conversations: when it expires, its id, and when it was asked.
func waitingSet() state.Key { return state.BotKey().Under("approvals", "waiting") }

// asks is the member for what a turn has asked, until it waits for that.
var asks = turn.NewLocal[string]()

func (a *approval) member() string {
	return fmt.Sprint(a.Expires.Unix(), " ", a.ID, " ", a.Asked.Unix())
}

// list puts what a turn asked into the set, once it waits.
func (f *asking) list(ctx context.Context, t *turn.Turn, e turn.Ended) {
	if e.Outcome != "waiting" {
		return
	}
	member := asks.Of(t)
	if *member == "" {
		return
	}
	f.noteFailure(ctx, f.store.Join(ctx, waitingSet(), *member))
	*member = ""
	f.tidy.Do(func() { // what dead processes have left
		f.noteFailure(ctx, f.store.Drain(ctx, waitingSet(), func(members []string) ([]string, error) { return expired(members), nil }))
	})
}

// unlist takes what is over out of the set.
func (a *approval) unlist(ctx context.Context) {
	a.of.noteFailure(ctx, a.of.store.Leave(ctx, waitingSet(), a.member()))
}

func (*asking) noteFailure(ctx context.Context, err error) {
	if err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("the number of waiting approvals is not exact")
	}
}

// expired returns the members whose time is up. It changes the list.
func expired(members []string) []string {
	return slices.DeleteFunc(members, func(member string) bool {
		expires, _, _ := strings.Cut(member, " ")
		at, err := strconv.ParseInt(expires, 10, 64)
		return err == nil && time.Now().Before(time.Unix(at, 0).Add(afterExpiry))
	})
}

// Waiting counts the approvals that wait in all conversations, and says since when the oldest does; zero: not known. After a
// crash one may be missing, or count until it expires.
func Waiting(ctx context.Context, store *state.Store) (n int, since time.Time, err error) {
	err = store.Members(ctx, waitingSet(), func(members []string) error {
		over := expired(slices.Clone(members))
		for _, member := range members {
			fields := strings.Fields(member)
			if slices.Contains(over, member) {
				continue
			}
			n++
			asked, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			if at := time.Unix(asked, 0); err == nil && len(fields) == 3 && (since.IsZero() || at.Before(since)) {
				since = at
			}
		}
		return nil
	})
	return n, since, err
}

// noteAsked notes who is asked, each with the rule: these people, and those who were sent it from that one on. Whom who asked
// in private has not let read it, and who cannot be reached, is not.
func (a *approval) noteAsked(t *turn.Turn, outcome string, people []string, from int) {
	var all []string
	for _, id := range people {
		held := slices.ContainsFunc(a.Sent, func(s sent) bool { return s.Held && s.To == id && a.held() })
		if !held && !slices.Contains(a.unreached, id) {
			all = append(all, id+" ("+a.ruleOf(id)+")")
		}
	}
	for _, s := range a.Sent[min(from, len(a.Sent)):] {
		if s.For != nil && (!s.Held || !a.held()) {
			all = append(all, s.byRule())
		}
	}
	turn.NoteFor(t, t, turn.Note{What: "approval", Outcome: outcome, Action: a.Action, Of: a.Entities, ID: a.ID, Asked: all})
}

// Chain says in lines whom the record asked when, by which rule, and what each has decided. None: it waits for no approval.
func Chain(rec *turn.Record) (lines []string) {
	a := waits(rec)
	if a.Expires.IsZero() {
		return nil
	}
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	say("%s: asked for approval until %s", at(a.Asked), at(a.Expires))
	if len(a.Here)+len(a.Beside) > 0 {
		say("who can decide in the conversation: %s", titles.Visible(strings.Join(slices.Concat(a.Here, a.Beside), ", ")))
	}
	for _, s := range a.Sent {
		who := titles.Visible(strings.TrimSpace(s.Name + " " + s.To))
		switch {
		case s.Held && a.held():
			say("not yet asked: %s (%s), until who asked lets them read it", who, s.Rule)
		case s.For != nil:
			say("%s: asked %s (%s of %s)", at(s.At), who, s.Rule, titles.Visible(s.For.By.Name))
		default:
			say("%s: asked %s (%s)", at(s.At), who, s.Rule)
		}
	}
	if a.Changed != nil {
		say("changed by %s", titles.Visible(a.Changed.By.Name))
	}
	v := view{View: titles.View{Say: new(actions.Turn).Translate, Zone: time.UTC}}
	decisions := a.Votes
	if a.Decision != nil && (!a.Decision.Approved || len(a.Votes) == 0) {
		decisions = append(slices.Clone(a.Votes), *a.Decision)
	}
	for _, d := range decisions {
		words := "rejected"
		switch {
		case d.Withdrawn:
			words = "taken back"
		case d.Approved:
			words = "approved"
		}
		say("%s: %s by %s", at(d.At), words, d.who(v, titles.Visible))
	}
	if a.Decision == nil && a.Quorum > 1 {
		say("%d of %d approvals", len(a.Votes), a.Quorum)
	}
	for _, e := range a.Escalate {
		say("%s: asks %s as well (%s), if nobody has decided", at(e.At), titles.Visible(strings.Join(e.To, ", ")), byEscalation)
	}
	return lines
}

// enough reports whether those people and the ones to be asked later are as many as have to approve it.
func (a *approval) enough(people []string, quorum int) bool {
	all := slices.Clone(people)
	for _, e := range a.Escalate {
		all = append(all, slices.DeleteFunc(slices.Clone(e.To), func(id string) bool { return slices.Contains(all, id) })...)
	}
	return len(all) >= max(quorum, 1) || slices.ContainsFunc(all, isChat)
}

// reach finds where those of the people read who do not read here, and their delegates. It returns those who were found,
// or are here, or whose delegate is.
func (a *approval) reach(ctx context.Context, t *turn.Turn, people []string) (reached []string, err error) {
	for _, id := range people {
		ok, err := a.reachOne(ctx, t, sent{To: id})
		if err != nil {
			return nil, err
		}
		d, err := a.delegateOf(ctx, t, id)
		if err != nil {
			return nil, err
		}
		if d != nil {
			stands, err := a.reachOne(ctx, t, sent{To: idOf(d.To), For: d, Instead: !ok})
			if err != nil {
				return nil, err
			}
			ok = ok || stands
		}
		if ok {
			reached = append(reached, id)
		}
	}
	return reached, nil
}

// reachOne finds where an approver or a delegate reads. ok is false if they cannot be asked.
func (a *approval) reachOne(ctx context.Context, t *turn.Turn, s sent) (ok bool, err error) {
	who, here, sure := isHere(ctx, t, s.To)
	if here && !sure && !isChat(s.To) { // then they are asked in their own chat, if they have one
		if _, err := turn.Reach(ctx, t, actions.Recipient{User: s.To}); err == nil {
			here = false
		}
	}
	if here {
		if a.hasMet(who) {
			return false, nil
		}
		s.Name = who.Name
		switch {
		case s.For == nil:
			a.Here = append(a.Here, plain(s.Name))
		case s.Instead:
			a.Here = append(a.Here, s.name(t))
		case !slices.Contains(a.Beside, s.name(t)):
			a.Beside = append(a.Beside, s.name(t))
		}
		return true, nil
	}
	to := actions.Recipient{User: s.To}
	if isChat(s.To) {
		to = actions.Recipient{Conversation: s.To}
	}
	if isName(s.To) {
		return false, a.unreachable(ctx, t, s.To, errors.New("a user principal name is no id"))
	}
	s.Conversation, err = turn.Reach(ctx, t, to)
	if err != nil {
		return false, a.unreachable(ctx, t, s.To, err)
	}
	if to.User != "" {
		byOtherID := func(known sent) bool {
			return known.Conversation == s.Conversation && (known.For == nil) == (s.For == nil)
		}
		m, _ := turn.MemberOf(ctx, t, s.Conversation, s.To) // only for the name and the other id
		if a.hasMet(m) || slices.ContainsFunc(a.Sent, byOtherID) {
			return false, nil
		}
		s.Name = m.Name
	}
	s.Held, s.At, s.Rule = isPrivate(t), time.Now().UTC().Truncate(time.Second), byDelegation
	if s.For == nil {
		s.Rule = a.ruleOf(s.To)
	}
	a.Sent = append(a.Sent, s)
	return true, nil
}

// nameOf is the name of an approver, as far as their own chat with the bot says it.
func nameOf(ctx context.Context, t *turn.Turn, id string) string {
	if isChat(id) {
		return ""
	}
	in, err := turn.Reach(ctx, t, actions.Recipient{User: id})
	if err != nil {
		return ""
	}
	m, _ := turn.MemberOf(ctx, t, in, id)
	return m.Name
}

// hasMet reports whether that person was found before, by another of their ids, and remembers them.
func (a *approval) hasMet(who activity.Account) bool {
	id := strings.ToLower(idOf(who))
	met := id != "" && slices.Contains(a.met, id)
	a.met = append(a.met, id)
	return met
}

// unreachable notes that an approver cannot be asked. An error is one that passes.
func (a *approval) unreachable(ctx context.Context, t *turn.Turn, id string, err error) error {
	if errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	zerolog.Ctx(ctx).Error().Err(err).Str("approval", a.ID).Str("approver", id).Msg("an approver cannot be asked")
	a.unreached = append(a.unreached, id)
	turn.NoteFor(t, t, turn.Note{What: "approval", Outcome: "unreachable", Action: a.Action, Of: a.Entities, ID: a.ID, Asked: []string{id}})
	a.Missed = true
	return nil
}

// ask sends cards to those elsewhere, from that one on. enough reports whether as many as have to approve are asked, or
// will be. An approver and their delegate count as one.
func (a *approval) ask(ctx context.Context, t *turn.Turn, from int) (enough bool, err error) {
	all := a.Sent
	a.Sent = slices.Clone(all[:from])
	for _, s := range all[from:] {
		s.Held = false
		if a.Changed != nil && isOf(s.To, a.Changed.By) { // they know
			a.Sent = append(a.Sent, s)
			continue
		}
		err := a.send(ctx, t, t.Activity, s, "")
		if err != nil {
			if err := a.unreachable(ctx, t, s.To, err); err != nil {
				a.Sent = all
				return false, err
			}
			continue
		}
		a.Sent = append(a.Sent, s)
	}
	return a.asksLater() || a.asksEnough(), nil
}

// asksEnough reports whether as many as have to approve are asked.
func (a *approval) asksEnough() bool {
	people := len(a.Here)
	for _, s := range a.Sent {
		if !a.asks(s) {
			continue
		}
		if isChat(s.To) {
			return true
		}
		people += s.people()
	}
	return people >= max(a.Quorum, 1)
}

// asks reports whether the policy still names who was asked.
func (a *approval) asks(s sent) bool {
	return s.For != nil || slices.ContainsFunc(a.deciders(), func(id string) bool { return strings.EqualFold(id, s.To) })
}

// isChat reports whether the id is that of a chat or channel.
func isChat(id string) bool { return strings.HasPrefix(id, threads) }

// isPrivate reports whether only the person who asked reads what the turn says.
func isPrivate(t *turn.Turn) bool {
	return turn.PrivateTo(t) != "" || t.Activity.Conversation.Personal()
}

// held reports whether others are asked only once who asked agrees.
func (a *approval) held() bool {
	return !a.Agreed && slices.ContainsFunc(a.Sent, func(s sent) bool { return s.Held })
}

// isName reports whether an approver is given by what people sign in with, of which Teams makes no id of who clicks.
func isName(id string) bool { return strings.Contains(id, "@") && !isChat(id) }

// isHere reports whether an approver reads the turn's conversation, and their account, as far as it is known. If the
// channel does not say, they do, and it is not sure.
func isHere(ctx context.Context, t *turn.Turn, id string) (who activity.Account, here, sure bool) {
	switch {
	case isOf(id, t.Activity.From):
		return t.Activity.From, true, true
	case isPrivate(t):
		return who, false, true
	case isChat(id):
		return who, t.Activity.Conversation.BaseID() == baseOf(id), true
	case isName(id):
		return who, false, true
	}
	m, err := turn.MemberOf(ctx, t, "", id)
	refused, ok := errors.AsType[*connector.Error](err)
	missing := ok && refused.Code == connector.NoMember
	return m, !missing, err == nil || missing
}

// send submits a record that asks an approver elsewhere what a message led to or, at the end, says there how it ended.
func (a *approval) send(ctx context.Context, t *turn.Turn, of *activity.Activity, s sent, what string) error {
	key := a.ID + "\n" + s.To
	if a.Changed != nil {
		key += "\n" + strconv.Itoa(a.Changed.Times)
	}
	if what != "" {
		key += "\n" + what
	}
	asker := bare(of.From)
	if asker.Name == "" && asker.ID != "" { // a program asks, which does not say
		m, _ := turn.MemberOf(ctx, t, of.Conversation.BaseID(), asker.ID)
		asker.Name = m.Name
	}
	copied, err := a.copied()
	if err != nil {
		return err
	}
	copied.elsewhere()
	copied.For, copied.Clicked = s.For, s.Clicked
	fill := func(h turn.Holder) {
		*visits.Of(h) = visit{
			Approval: copied, In: of.Conversation.ID, Asker: asker, Program: requests.Program(t), Locale: of.Locale,
			Over: what == over, Remind: strings.HasPrefix(what, reminder),
			Place: of.Conversation.Name, Kind: of.Conversation.ConversationType,
		}
	}
	_, err = turn.SubmitTo(ctx, t, actions.Recipient{Conversation: s.Conversation}, featureName, key, fill)
	if errors.Is(err, actions.ErrUnknownRecipient) && !isChat(s.To) { // they had the bot forget their chat
		_, err = turn.SubmitTo(ctx, t, actions.Recipient{User: s.To}, featureName, key, fill)
	}
	return err
}

// copied shares nothing with the approval: its turn may run at once, beside the one that goes on with the approval.
func (a *approval) copied() (approval, error) {
	other := approval{}
	raw, err := json.Marshal(a)
	if err == nil {
		err = json.Unmarshal(raw, &other)
	}
	other.of = a.of
	return other, err
}

// elsewhere takes away what is only for the conversation of the turn.
func (a *approval) elsewhere() {
	a.Approvers, a.Deciders, a.Sent, a.Alone, a.Missed = nil, nil, nil, false, false
}

// close says in all chats elsewhere how it ended.
func (a *approval) close(ctx context.Context, t *turn.Turn, of *activity.Activity) error {
	a.unlist(ctx)
	all := a.Sent
	row, err := a.of.store.FindRow(ctx, looks, a.ID)
	switch {
	case err == nil:
		all = append(slices.Clone(all), sent{To: looks, Conversation: row.Text})
	case !errors.Is(err, state.ErrNoRow):
		return err
	}
	for _, s := range all {
		if s.Held {
			continue
		}
		err := a.send(ctx, t, of, s, over)
		if errors.Is(err, state.ErrUnavailable) {
			return err
		}
		if err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("approval", a.ID).Msg("a card elsewhere still asks")
		}
	}
	return nil
}

// drop says elsewhere that nobody waits for it any more, and because of whom.
func (a *approval) drop(ctx context.Context, t *turn.Turn, of *activity.Activity, who activity.Account) error {
	a.withdraw(who, "")
	return a.close(ctx, t, of)
}

func (a *approval) withdraw(who activity.Account, click string) {
	at := time.Now().UTC().Truncate(time.Second)
	a.Decision = &decision{Withdrawn: true, By: cmp.Or(who.Name, who.ID), At: at, Click: click}
}

// Withdraw takes the question back for who asked.
func (a *approval) Withdraw(by *activity.Activity) {
	if a.Decision == nil {
		a.withdraw(by.From, by.ID)
	}
}

// Dropped is called when the record that waited was dropped.
func (a *approval) Dropped(ctx context.Context, t *turn.Turn, asked *activity.Activity) error {
	if err := a.drop(ctx, t, asked, t.Activity.From); err != nil {
		return err
	}
	if asked.Conversation.ID == t.Activity.Conversation.ID {
		v := a.of.viewOf(t)
		v.Asker = asked.From
		a.redraw(ctx, t, a.Closed(v))
	}
	return nil
}

// plain is a name for a text in markdown: one with markup in it is shown as code.
func plain(name string) string {
	name = titles.Visible(name)
	if strings.ContainsAny(name, "*_`[]<>|~\\") {
		return titles.Code(name)
	}
	return name
}

// byRule is who was asked, and by which rule.
func (s sent) byRule() string {
	if s.For == nil {
		return s.To + " (" + s.Rule + ")"
	}
	return s.To + " (" + s.Rule + " of " + idOf(s.For.By) + ")"
}

// asked are those who were asked elsewhere or, if who asked is to agree to that first, are to be, in words.
func (a *approval) asked(t *turn.Turn) string {
	if !a.held() {
		return names(t, a.Sent)
	}
	return names(t, slices.DeleteFunc(slices.Clone(a.Sent), func(s sent) bool { return !s.Held }))
}

// names are those who were asked elsewhere, in words.
func names(t *turn.Turn, all []sent) string {
	var list []string
	for _, s := range all {
		list = append(list, s.name(t))
	}
	return strings.Join(slices.Compact(list), ", ")
}

// name is who was asked, in markdown, and for whom.
func (s sent) name(t *turn.Turn) string {
	name := cmp.Or(plain(s.Name), t.Translate("an approver"))
	if s.For == nil {
		return name
	}
	v := titles.View{Say: t.Translate, Zone: t.Activity.Zone()}
	return t.Translate("%s (for %s until %s)", name, cmp.Or(plain(s.For.By.Name), t.Translate("an approver")), v.Clock(s.For.Until))
}

// people is how many approvers are asked by it: nobody, if a delegate is asked beside one.
func (s sent) people() int {
	if s.For != nil && !s.Instead {
		return 0
	}
	return 1
}

// visit is the turn of a record that another conversation submitted: it shows the card, or replaces it.
func (f *asking) visit(ctx context.Context, t *turn.Turn) error {
	r := visits.Of(t)
	t.Activity.Locale = cmp.Or(t.Activity.Locale, r.Locale)
	if r.Begun != nil {
		return r.Begun.tell(ctx, t)
	}
	if r.Lost != "" {
		return f.lose(ctx, t, *r)
	}
	a, v := &r.Approval, f.viewOf(t)
	a.of, v.Asker, v.Program, v.Place = f, r.Asker, programOf(t, r.Program, r.Asker), placeOf(t, r.Place, r.Kind)
	list := state.Of[approvals](t.Conversation)
	at := slices.IndexFunc(list.Elsewhere, func(one asked) bool { return one.ID == a.ID })
	switch {
	case r.Remind && (at < 0 || time.Now().After(a.Expires)):
		return nil
	case r.Remind:
		said := list.remindsHere(t)
		if said == "" {
			return nil
		}
		return t.Send(ctx, t.Message(said))
	case r.Over:
		cards := a.Clicked
		if at >= 0 {
			list.Elsewhere[at].Over = true
			cards = append(list.Elsewhere[at].cards(), cards...)
		}
		if !t.ShowsCards() { // words have no buttons
			return nil
		}
		return t.Send(ctx, updates(t, cards, a.Closed(v))...)
	case at >= 0 && a.Changed != nil && t.ShowsCards() && time.Now().Before(a.Expires):
		r.Redrawn = true
		said := t.Message(t.Translate("What you are asked to approve was changed. Please look at it again."))
		return t.Send(ctx, append(updates(t, list.Elsewhere[at].cards(), a.Card(v, r.In)), said)...)
	case at < 0:
		list.add(ctx, t, asked{ID: a.ID, In: r.In})
	}
	if time.Now().After(a.Expires) {
		return nil
	}
	list.Delegates = list.Delegates || a.Delegation && a.For == nil
	err := t.Send(ctx, a.question(t, v, r.In))
	refused, ok := errors.AsType[*connector.Error](err)
	if !ok || refused.Status != http.StatusForbidden && refused.Status != http.StatusNotFound {
		return err
	}
	key := strings.Join([]string{a.ID, "lost", t.Activity.Conversation.ID}, "\n") // they have blocked the bot
	_, failed := turn.SubmitTo(ctx, t, actions.Recipient{Conversation: r.In}, featureName, key, func(h turn.Holder) {
		*visits.Of(h) = visit{Approval: approval{ID: a.ID}, Lost: t.Activity.Conversation.ID}
	})
	return errors.Join(err, failed)
}

// lose has the approval of a visit go on without who has blocked the bot.
func (f *asking) lose(ctx context.Context, t *turn.Turn, r visit) error {
	waiting, err := turn.Here(t).Waits(ctx, "")
	for _, w := range waiting {
		if a, ok := w.Pause.(*approval); ok && a.ID == r.Approval.ID && err == nil {
			_, _, err = turn.Wake(ctx, t, w, false, func(p turn.Pause) { p.(*approval).lose(r.Lost) })
		}
	}
	return err
}

// placeOf says where something was asked, for who reads it elsewhere.
func placeOf(t *turn.Turn, name, kind string) string {
	switch {
	case name != "":
		return t.Translate("Asked in %s.", titles.Visible(name))
	case kind == "channel":
		return t.Translate("Asked in a channel.")
	case kind == "groupChat":
		return t.Translate("Asked in a group chat.")
	}
	return ""
}

// updates are messages that replace those cards.
func updates(t *turn.Turn, ids []string, card activity.Card) (all []*activity.Activity) {
	for _, id := range once(ids) {
		all = append(all, replacing(t, id, card))
	}
	return all
}

// once is each of the ids once.
func once(ids []string) []string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

// replacing is a message with a card in place of the message with that id.
func replacing(t *turn.Turn, id string, card activity.Card) *activity.Activity {
	m := toAsker(t, "")
	if id != "" {
		m.Type, m.ID = activity.MessageUpdate, id
	}
	m.Attachments = []activity.Attachment{card.Attachment()}
	return m
}

const (
	// maxListed limits the approvals that are listed at a time, and maxPlaces the other chats of a person that are looked at.
	maxListed, maxPlaces = 10, 50
	// looks is the table of the chats in which people saw what they had asked for in others, and maxLooks its rows.
	looks, maxLooks = "approval-looks", 100_000
)

// Inbox is the handler of a command: it asks again what the person may decide, of here and of other conversations, and
// shows what they wait for here, to be taken back.
func Inbox(ctx context.Context, t *turn.Turn) error {
	var ask, own []*activity.Activity
	var again, ownAgain []asked
	delegates := false
	here := t.Activity.Conversation.ID
	places := []string{here}
	for _, one := range state.Peek[approvals](t.Conversation).Elsewhere {
		if !one.Over && !slices.Contains(places, one.In) {
			places = append(places, one.In)
		}
	}
	asksHere := len(places) // from this one on, only what the person asked for
	if t.Activity.Conversation.Personal() {
		err := turn.Places(ctx, t, func(p turn.Place) error {
			if !p.OnlyNotices && !slices.Contains(places, p.Conversation) && len(places) < asksHere+maxPlaces {
				places = append(places, p.Conversation)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i, in := range places {
		waiting, err := turn.There(t, in).Waits(ctx, "")
		if err != nil {
			return err
		}
		for _, w := range waiting {
			a, ok := w.Pause.(*approval)
			// Nobody else here is to know of what was asked in private.
			if !ok || w.Asked == nil || w.Asked.Targeted() && in == here || w.For != a.Kind() || a.Decision != nil {
				continue
			}
			v := a.of.viewOther(ctx, t, w)
			theirs := w.Asked.From.ID == t.Activity.From.ID
			if !theirs && i >= asksHere {
				continue
			}
			if err := a.standIn(ctx, t, v.Asker); err != nil {
				return err
			}
			a.For = a.stands
			decides := a.MayDecide(t.Activity.From, v.Asker, conversationOf(t.Activity))
			delegates = delegates || decides && a.Delegation && !theirs && a.stands == nil
			copied := *a
			switch {
			case in == here && (decides || theirs && (a.held() || a.asksAgain())):
				ask, again = append(ask, a.question(t, v, "")), append(again, asked{ID: a.ID, In: in})
			case decides:
				copied.elsewhere()
				ask, again = append(ask, copied.question(t, v, in)), append(again, asked{ID: a.ID, In: in})
			case theirs:
				if in != here {
					row := state.Row{ID: a.ID, Text: here, Until: a.Expires.Add(time.Hour)}
					if err := a.of.store.PutRow(ctx, looks, maxLooks, row); err != nil {
						return err
					}
				}
				copied.Alone = true // so it can only be taken back
				own, ownAgain = append(own, copied.question(t, v, in)), append(ownAgain, asked{ID: a.ID, In: in})
			}
		}
	}
	ask, again = append(ask, own...), append(again, ownAgain...)
	left := len(ask) - maxListed
	if left > 0 {
		ask = ask[:maxListed]
	}
	if len(again) > 0 {
		visits.Of(t).Again = again[:len(ask)]
	}
	if left > 0 {
		ask = append(ask, t.Message(t.Translate("There are %s more.", count(left))))
	}
	if delegates {
		ask = append(ask, t.Message(t.Translate("To let somebody else decide for a while, say %s.", "**"+DelegateCommand+"**")))
	}
	if len(ask) == 0 {
		return t.Tell(ctx, t.Translate("No approval waits for you."))
	}
	return t.Send(ctx, ask...)
}

// shown notes the cards that a visit or [Inbox] has sent, at the end of its turn.
func shown(ctx context.Context, t *turn.Turn) error {
	r := visits.Peek(t)
	if r.Over || r.Remind || r.Redrawn || r.Approval.ID == "" && len(r.Again) == 0 {
		return nil
	}
	list := state.Of[approvals](t.Conversation)
	for i, card := range t.Sent()[:min(len(t.Sent()), max(len(r.Again), 1))] {
		one := asked{ID: r.Approval.ID}
		if len(r.Again) > 0 {
			one = r.Again[i]
		}
		at := slices.IndexFunc(list.Elsewhere, func(known asked) bool { return known.ID == one.ID })
		if at < 0 && one.In == "" || at >= 0 && card == "" {
			continue
		}
		if at < 0 {
			list.add(ctx, t, one)
			at = len(list.Elsewhere) - 1
		}
		known := &list.Elsewhere[at]
		switch {
		case len(r.Again) == 0:
			known.Card = cmp.Or(known.Card, card)
		default:
			if len(known.Again) == maxAgain && !slices.Contains(known.Again, card) {
				leadToInbox(ctx, t, known.Again[0])
			}
			known.Again = with(known.Again, card)
		}
	}
	return nil
}

// elsewhere is where the turn waits that a click is about. "": here.
func (c *click) elsewhere(here *state.Scope) string {
	in := c.said.In
	for _, one := range state.Peek[approvals](here).Elsewhere {
		if one.ID == c.ID {
			in, c.cards = one.In, one.cards()
		}
	}
	c.here = in == ""
	return in
}

// tellNews tells who asked of a vote that does not decide, and of approvers who have blocked the bot, and waits on. Whom the
// policy names now is asked, and others in place of who is lost, if too few are left.
func (a *approval) tellNews(ctx context.Context, t *turn.Turn) (turn.Next, error) {
	var said []string
	if a.Told < len(a.Votes) {
		a.Told = len(a.Votes)
		who := a.Votes[a.Told-1].who(a.of.viewOf(t), plain)
		said = append(said, t.Translate("%s approved this. It needs %s approvals.", who, count(a.Quorum)))
	}
	lost, named := len(a.Lost) > 0, a.New
	for _, name := range a.Lost {
		name = cmp.Or(plain(name), t.Translate("an approver"))
		said = append(said, t.Translate("I can't reach %s, who may approve this: %s.", name, turn.Title(t, a.Action)))
	}
	a.Lost, a.New = nil, false
	switch {
	case named:
		return a.askMore(ctx, t, said, a.unasked(), true, lost)
	case lost && !a.asksEnough():
		return a.askMore(ctx, t, said, nil, false, true)
	}
	return a.waitOn(t, strings.Join(said, " "))
}

// goOn asks further people or reminds, because it is time, and waits on. Why the wait ended says that: the clocks of
// processes and of Redis differ. First it asks the policy, which may name others than before.
func (a *approval) goOn(ctx context.Context, t *turn.Turn) (turn.Next, error) {
	w := turn.Own(t)
	call, err := w.Pending(ctx, t)
	if errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
		return turn.Next{}, err
	}
	now, reminds := a.Until(), a.reminds()
	before, known, escalated, late := a.deciders(), a.known(), a.Further, !reminds
	if a.consult(ctx, t, w, call, err, now) == "" && call != nil && call.Approval.Required {
		a.escalateBy(call.Approval.Escalate, t, now, known)
		late = a.Further > escalated
	}
	further := slices.DeleteFunc(a.unasked(), func(id string) bool { return slices.Contains(before, id) })
	for _, id := range further {
		if slices.Contains(known, id) {
			a.rules[id] = byEscalation
		}
	}
	switch {
	case late, len(further) > 0:
		return a.askMore(ctx, t, nil, further, a.namesOthers(known), false)
	case reminds:
		return a.remind(ctx, t)
	}
	return a.waitOn(t, "")
}

// escalateBy has those asked later whom the policy names for that now. In private these are only people of whom who
// asked knows.
func (a *approval) escalateBy(policy []actions.Escalation, t *turn.Turn, now time.Time, known []string) {
	a.Escalate = nil
	for i, e := range policy {
		at := a.Asked.Add(e.After)
		if !at.After(now) {
			a.Further = max(a.Further, i+1)
			continue
		}
		to := slices.DeleteFunc(a.others(e.To, t.Activity.From), func(id string) bool { return isPrivate(t) && !slices.Contains(known, id) })
		a.Escalate = append(a.Escalate, escalation{At: at, To: to})
	}
}

// askMore asks those people as well, and waits on. named says that the policy has come to name them; lost, that others
// have blocked the bot. While too few are asked, or nobody new, those of the next escalation are asked at once.
func (a *approval) askMore(ctx context.Context, t *turn.Turn, said, people []string, named, lost bool) (turn.Next, error) {
	asked, here, missed := len(a.Sent), len(a.Here)+len(a.Beside), a.Missed
	a.Missed = false
	if named {
		a.Here = nil
	}
	if _, err := a.reach(ctx, t, people); err != nil {
		return turn.Next{}, err
	}
	lacks := func() bool {
		if lost {
			return !a.asksEnough()
		}
		return !named && len(a.Sent) == asked && len(a.Here)+len(a.Beside) == here
	}
	for len(a.Escalate) > 0 && lacks() {
		more, err := a.reachFurther(ctx, t)
		if err != nil {
			return turn.Next{}, err
		}
		people = append(people, more...)
	}
	missedNow := a.Missed
	a.Missed = missedNow || missed
	a.Alone = len(a.Here)+len(a.Beside) == 0
	if (asked == 0 || named) && !lost && a.held() { // nobody else was to read it so far
		v := a.redrawOpen(ctx, t)
		return a.waitOn(t, strings.Join(append(said, a.head(v)+a.choices(v, "**")), " "))
	}
	if _, err := a.ask(ctx, t, asked); err != nil {
		return turn.Next{}, err
	}
	if lost && !a.asksEnough() {
		return a.giveUp(ctx, t)
	}
	outcome := "asked"
	asks, decide := texts.Text("I've asked %s."), texts.Text("Nobody has decided yet, so others here may decide now, too.")
	if len(a.Votes) > 0 {
		decide = "It needs more approvals, so others here may decide now, too."
	}
	if !named {
		outcome, asks = "escalated", "Nobody has decided yet, so I've also asked %s."
		if len(a.Votes) > 0 {
			asks = "It needs more approvals, so I've also asked %s."
		}
		t.Count(Counted, outcome)
	}
	a.noteAsked(t, outcome, people, asked)
	if len(a.Sent) > asked {
		said = append(said, t.Translate(asks, names(t, a.Sent[asked:])))
	}
	if len(a.Here)+len(a.Beside) > here {
		said = append(said, t.Translate(decide))
	}
	if missedNow {
		said = append(said, t.Translate(missedSome))
	}
	a.redrawOpen(ctx, t)
	return a.waitOn(t, strings.Join(said, " "))
}

// redrawOpen redraws what still asks, as the turn's person sees it.
func (a *approval) redrawOpen(ctx context.Context, t *turn.Turn) view {
	v := a.of.viewOf(t)
	v.Asked = a.asked(t)
	a.redraw(ctx, t, a.Card(v, ""))
	return v
}

// unasked are those who may decide and were not asked elsewhere.
func (a *approval) unasked() []string {
	return slices.DeleteFunc(slices.Clone(a.deciders()), func(id string) bool {
		return id == nobody || slices.ContainsFunc(a.Sent, func(s sent) bool { return strings.EqualFold(s.To, id) })
	})
}

// lose has the approval go on without those in that conversation, who have blocked the bot.
func (a *approval) lose(conversation string) {
	a.Sent = slices.DeleteFunc(a.Sent, func(s sent) bool {
		gone := s.Conversation == conversation
		if gone {
			a.Lost, a.Missed = append(a.Lost, s.Name), true
		}
		return gone
	})
}

// reachFurther finds where those read whom the next escalation names, and lets them decide.
func (a *approval) reachFurther(ctx context.Context, t *turn.Turn) (reached []string, err error) {
	further := slices.DeleteFunc(slices.Clone(a.Escalate[0].To), func(id string) bool { return slices.Contains(a.deciders(), id) })
	a.Escalate, a.Further = a.Escalate[1:], a.Further+1
	for _, id := range further {
		a.rules[id] = byEscalation
	}
	a.let(slices.Concat(a.deciders(), further), true, a.Quorum)
	return a.reach(ctx, t, further)
}

const missedSome texts.Text = "I can't reach everybody who may approve this."

// remind reminds those who may decide: once a day in each chat, however many approvals wait there.
func (a *approval) remind(ctx context.Context, t *turn.Turn) (turn.Next, error) {
	for _, s := range a.Sent {
		agreed := a.voteFor(s.To) != nil || s.For != nil && a.voteFor(idOf(s.For.By)) != nil
		if agreed || !a.asks(s) || s.For != nil && time.Now().After(s.For.Until) { // it waits for others
			continue
		}
		err := a.send(ctx, t, t.Activity, s, reminder+a.Remind.Format(time.DateOnly))
		if errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
			return turn.Next{}, err
		}
		if err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("approval", a.ID).Msg("an approver cannot be reminded")
		}
	}
	last := a.Remind
	if now := time.Now(); now.After(last) { // else the clock of Redis is ahead
		last = now
	}
	a.Remind = a.of.reminderAfter(last, t.Activity.Zone())
	said := ""
	if !a.Alone || a.asksAgain() {
		said = state.Of[approvals](t.Conversation).remindsHere(t)
	}
	return a.waitOn(t, said)
}

// tellChanged tells who asked, and those who are to approve it now, what one of these has changed.
func (a *approval) tellChanged(ctx context.Context, t *turn.Turn) (turn.Next, error) {
	if !isPrivate(t) { // else nobody reads it to whom who asked has not agreed
		a.Here = nil
		if _, err := a.reach(ctx, t, a.unasked()); err != nil {
			return turn.Next{}, err
		}
		a.Alone = len(a.Here)+len(a.Beside) == 0 && len(a.deciders()) > 0
	}
	enough, err := a.ask(ctx, t, 0)
	if err != nil {
		return turn.Next{}, err
	}
	if !enough && a.Quorum > 1 {
		return a.giveUp(ctx, t)
	}
	a.Changed.Told, a.Told = true, len(a.Votes)
	v := a.redrawOpen(ctx, t)
	said := a.saysChange(v)
	if a.asksAgain() {
		said += " " + t.Translate("If you agree, say %s.", "**/approve "+a.ID+a.version()+"**")
	}
	return a.waitOn(t, said)
}

// askHeld asks others now that who asked agrees. Their time begins now.
func (a *approval) askHeld(ctx context.Context, t *turn.Turn) (turn.Next, error) {
	later := time.Since(a.Asked).Truncate(time.Second)
	a.unlist(ctx)
	a.Asked, a.Expires = a.Asked.Add(later), a.Expires.Add(later)
	*asks.Of(t) = a.member()
	a.Remind = a.of.reminderAfter(a.Asked.Add(noReminder), t.Activity.Zone())
	for i := range a.Escalate {
		a.Escalate[i].At = a.Escalate[i].At.Add(later)
	}
	a.Agreed = false
	enough, err := a.ask(ctx, t, 0)
	if err != nil {
		return turn.Next{}, err
	}
	if !enough {
		return a.giveUp(ctx, t)
	}
	v := a.redrawOpen(ctx, t)
	if t.ShowsCards() {
		return a.waitOn(t, "")
	}
	return a.waitOn(t, t.Translate("I've asked %s.", v.Asked))
}

// giveUp goes on without the call, since too few can be asked.
func (a *approval) giveUp(ctx context.Context, t *turn.Turn) (turn.Next, error) {
	if err := a.drop(ctx, t, t.Activity, t.Activity.Recipient); err != nil {
		return turn.Next{}, err
	}
	v := a.of.viewOf(t)
	remember(t, a, a.ID, a.Late(v), a.cards())
	a.redraw(ctx, t, a.Closed(v))
	return turn.Without(t, a, a.Action, "nobody who may approve it can be asked, so it did not run", func(string) []*activity.Activity {
		return []*activity.Activity{toAsker(t, t.Translate(unreachable)+turn.BeforeThat(t))}
	})
}

// toAsker is a message to who asked.
func toAsker(t *turn.Turn, said string) *activity.Activity {
	m := t.Message(said)
	if person := turn.PrivateTo(t); person != "" {
		m.Target(person)
	}
	return m
}

// waitOn says something, unless it is empty, and waits on.
func (a *approval) waitOn(t *turn.Turn, said string) (turn.Next, error) {
	if said == "" {
		return turn.WaitOn(t, a)
	}
	return turn.WaitOn(t, a, toAsker(t, said))
}

const unreachable texts.Text = "I can't reach enough people who may approve this, so I didn't do it."

// delegateOf returns who is asked besides an approver; nil: nobody. It is not who asked, nor somebody who is asked anyway.
func (a *approval) delegateOf(ctx context.Context, t *turn.Turn, approver string) (*delegation, error) {
	if !a.Delegation || isChat(approver) {
		return nil, nil
	}
	d, err := findDelegation(ctx, t, a.of.store, approver)
	if err != nil || d == nil || same(d.To, t.Activity.From) {
		return nil, err
	}
	asked := slices.ContainsFunc(a.deciders(), func(id string) bool { return isOf(id, d.To) })
	if asked || slices.ContainsFunc(a.Sent, func(s sent) bool { return isOf(s.To, d.To) }) || d.orphaned(ctx, t) {
		return nil, nil
	}
	return d, nil
}

// standIn finds out in whose place the person of the turn may decide now, if they may not decide themselves.
func (a *approval) standIn(ctx context.Context, t *turn.Turn, asker activity.Account) error {
	a.stands = nil
	who := t.Activity.From
	if !a.Delegation || same(asker, who) || a.MayDecide(who, asker, conversationOf(t.Activity)) {
		return nil
	}
	var found *delegation
	for _, id := range a.deciders() {
		if isChat(id) || id == nobody {
			continue
		}
		d, err := findDelegation(ctx, t, a.of.store, id)
		if err != nil {
			return err
		}
		free := found == nil || a.voteFor(idOf(found.By)) != nil
		if d != nil && free && same(d.To, who) && !d.orphaned(ctx, t) {
			found = d
		}
	}
	a.stands = found
	return nil
}

// seat is an id of the approver for whom a click of that person counts.
func (a *approval) seat(who activity.Account) string {
	if a.stands != nil {
		return idOf(a.stands.By)
	}
	return idOf(who)
}

// voteFor returns the approval of the person with that id, or of who gave it in their place; nil: there is none.
func (a *approval) voteFor(id string) *decision {
	at := slices.IndexFunc(a.Votes, func(d decision) bool {
		return id == d.ID || strings.EqualFold(id, d.User) || d.For != nil && isOf(id, *d.For)
	})
	if at < 0 {
		return nil
	}
	return &a.Votes[at]
}
