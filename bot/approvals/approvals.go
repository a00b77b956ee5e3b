// Package approvals asks people: to approve calls, and what actions want to know. It makes the cards and the words,
// reads what a person clicks or says, and decides who may decide. Package turn stores the pauses in its records, and
// makes the calls.
package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/requests"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/state"
)

const (
	featureName = "approvals"
	// Counted is what is counted: approvals asked, standing, sent, agreed, escalated, approved, rejected, withdrawn or expired, see [turn.Counted].
	// Agreed is an approval that is not enough yet, and sent that who asked in private lets others read it.
	Counted = "approvals"
	// DecidedAfter is counted for each approval that is over, with the time since it was asked: by the rule by which who decided
	// was asked, as [Chain] names them, or requester or nobody.
	DecidedAfter = "approvals_decided"
	// maxWaiting limits the approvals, and the questions, that one conversation waits for.
	maxWaiting = 16
	// maxStanding limits the approvals for good, and maxDecided the decisions remembered for late
	// clicks. Beyond that the oldest goes.
	maxStanding, maxDecided = 100, 48
	// afterExpiry is how long a record waits after an approval expires: a decision of the last
	// moment may still be on its way.
	afterExpiry = time.Minute
	// maxMessage is how many bytes a message that asks may have. Teams accepts 28 KB of a card.
	maxMessage = 26 << 10
)

// asking is the feature.
type asking struct {
	store     *state.Store
	actions   *actions.Registry
	approvers []string
	within    time.Duration
	remind    string // the time of day; "": nobody is reminded
	tidy      sync.Once
}

// ReminderLayout is how the time of day of reminders is written.
const ReminderLayout = "15:04"

// New returns the feature. Approvers may approve calls for which the policy names nobody; none: who wanted the
// call. within is how long they have if the policy does not say. remind is when in the day they are reminded of what waits,
// in [ReminderLayout]; "": they are not.
func New(store *state.Store, all *actions.Registry, approvers []string, within time.Duration, remind string) turn.Feature {
	f := &asking{store: store, actions: all, approvers: approvers, within: within, remind: remind}
	return turn.Feature{
		Name:   featureName,
		Ready:  f.ready,
		Left:   shown,
		Ended:  f.list,
		Handle: f.visit,
		Forget: func(ctx context.Context, t *turn.Turn) error {
			noteEnd(t)
			return dropDelegation(ctx, t, store)
		},
		Asks: func(_ *turn.Turn, q turn.Question) turn.Pause { return &question{Question: q, of: f} },
		Pauses: map[string]func() turn.Pause{
			"approval": func() turn.Pause { return &approval{of: f} },
			"question": func() turn.Pause { return &question{of: f} },
		},
		Reads: func(a *activity.Activity, text string) *turn.Reply {
			if a.Type == activity.Message && a.Text != "" && !strings.HasPrefix(strings.TrimSpace(text), "/") {
				return nil // as nearly every message
			}
			c, ok := read(a, text)
			if !ok {
				return nil
			}
			r := &turn.Reply{Pause: c.ID, Alone: c.Answers, Take: c.take, Taken: c.taken, Late: c.late, Counted: c.counted, End: c.endLate}
			if !c.Answers {
				r.Elsewhere = c.elsewhere
			}
			return r
		},
		Values: []turn.Value{{Name: "approvals", Says: "approvals", Forget: forget, Stays: staying, Of: keptOf}},
	}
}

// Decided returns the action that a person has decided about, for which the record waited. "": there is none.
func Decided(rec *turn.Record) (action string, approved bool) {
	if a := waits(rec); a.Decision != nil {
		return a.Action, a.Decision.Approved
	}
	return "", false
}

// waits is the approval that the record waits for; an empty one: it waits for none.
func waits(rec *turn.Record) (a approval) {
	if rec.Wait != nil {
		_ = json.Unmarshal(rec.Wait.Pauses["approval"], &a) // else there is none
	}
	return a
}

// HashOf returns the hash of the call that the record waits for a person to approve, see [turn.CallHash]. "": it waits
// for no approval.
func HashOf(rec *turn.Record) string { return waits(rec).Hash }

// approvals is what a conversation's state keeps about them.
type approvals struct {
	Standing []standing `json:"standing,omitempty"`
	Decided  []decided  `json:"decided,omitempty"`
	// Elsewhere are the questions of other conversations that were asked here.
	Elsewhere []asked `json:"elsewhere,omitempty"`
	// Reminded is when people were last reminded here.
	Reminded time.Time `json:"reminded,omitzero"`
	// Delegates says that approvers were asked here who may let somebody else decide.
	Delegates bool `json:"delegates,omitzero"`
}

// MayDelegate reports whether the turn's person or, in a group, somebody was asked here for an approval that they may
// delegate, or has delegated.
func MayDelegate(t *turn.Turn) bool {
	return state.Peek[approvals](t.Conversation).Delegates || state.Peek[delegation](t.User).To.ID != ""
}

// Merge keeps what either side added and drops what either side removed: people may decide in two threads of a channel at
// the same time. What both changed stays as ours.
func (list *approvals) Merge(was, theirs *approvals) {
	list.Standing = merged(list.Standing, was.Standing, theirs.Standing, func(s standing) string { return s.Hash + "\n" + s.Asker })
	list.Decided = newest(merged(list.Decided, was.Decided, theirs.Decided, func(d decided) string { return d.ID }), maxDecided)
	list.Elsewhere = merged(list.Elsewhere, was.Elsewhere, theirs.Elsewhere, func(a asked) string { return a.ID })
	list.Delegates = list.Delegates || theirs.Delegates
	if theirs.Reminded.After(list.Reminded) {
		list.Reminded = theirs.Reminded
	}
}

// merged merges lists of things with ids.
func merged[E any](ours, was, theirs []E, id func(E) string) (all []E) {
	at := func(list []E, one E) int {
		return slices.IndexFunc(list, func(other E) bool { return id(other) == id(one) })
	}
	for _, one := range ours {
		before, now := at(was, one), at(theirs, one)
		switch {
		case before < 0 || now >= 0 && !reflect.DeepEqual(one, was[before]):
			all = append(all, one)
		case now >= 0:
			all = append(all, theirs[now])
		}
	}
	for _, one := range theirs {
		if at(ours, one) < 0 && at(was, one) < 0 {
			all = append(all, one)
		}
	}
	return all
}

// standing is a call that was approved for good: for the person who asked, in this conversation.
type standing struct {
	Hash  string    `json:"hash"`
	Asker string    `json:"asker"`
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	// Votes are the decisions of those who approved it. Earlier releases wrote none.
	Votes []decision `json:"votes,omitempty"`
}

// decided is what to say about an approval or a question that nobody waits for any more.
type decided struct {
	ID    string   `json:"id"`
	Asker string   `json:"asker"`
	Said  string   `json:"said"`
	Cards []string `json:"cards,omitempty"` // ids of the messages that asked
	Click string   `json:"click,omitempty"` // the activity that decided
}

// forget deletes the approvals and decisions that one person asked for; "" deletes everybody's. The questions of other
// conversations stay: their cards are to end with the decision.
func forget(conversation *state.Scope, asker string) {
	list := state.Of[approvals](conversation)
	list.Standing = slices.DeleteFunc(list.Standing, func(s standing) bool { return asker == "" || s.Asker == asker })
	list.Decided = slices.DeleteFunc(list.Decided, func(d decided) bool { return asker == "" || d.Asker == asker })
}

// staying keeps the questions of other conversations also when a chat is deleted: they wait, and their cards are to end.
func staying(conversation *state.Scope) (put func()) {
	open := slices.Clone(state.Peek[approvals](conversation).Elsewhere)
	open = slices.DeleteFunc(open, func(one asked) bool { return one.Over })
	return func() {
		if len(open) > 0 {
			state.Of[approvals](conversation).Elsewhere = open
		}
	}
}

// keptOf returns those that one person asked for.
func keptOf(conversation *state.Scope, asker string) any {
	list := *state.Of[approvals](conversation)
	list.Standing = slices.DeleteFunc(slices.Clone(list.Standing), func(s standing) bool { return s.Asker != asker })
	list.Decided = slices.DeleteFunc(slices.Clone(list.Decided), func(d decided) bool { return d.Asker != asker })
	list.Elsewhere, list.Reminded, list.Delegates = nil, time.Time{}, false // others asked these
	if len(list.Standing)+len(list.Decided) == 0 {
		return nil
	}
	return list
}

// reminderAfter is the next time of day for reminders, in that zone. Zero: there is none.
func (f *asking) reminderAfter(now time.Time, zone *time.Location) time.Time {
	of, err := time.Parse(ReminderLayout, f.remind)
	if err != nil {
		return time.Time{}
	}
	now = now.In(cmp.Or(zone, time.UTC))
	next := time.Date(now.Year(), now.Month(), now.Day(), of.Hour(), of.Minute(), 0, 0, now.Location())
	if !next.After(now) {
		next = next.AddDate(0, 0, 1)
	}
	return next.UTC()
}

// remindsHere returns the sentence that approvals wait, unless it was said here in the last hours.
func (list *approvals) remindsHere(t *turn.Turn) (said string) {
	if time.Since(list.Reminded) < 12*time.Hour {
		return ""
	}
	list.Reminded = time.Now().UTC().Truncate(time.Second)
	return t.Translate(inInbox, "**/approvals**")
}

// newest is the end of a list.
func newest[E any](list []E, most int) []E { return slices.Delete(list, 0, max(0, len(list)-most)) }

// with is a list of ids of messages with that one, too. "" is none.
func with(cards []string, card string) []string {
	if card == "" || slices.Contains(cards, card) {
		return cards
	}
	return newest(append(cards, card), maxAgain)
}

// remember keeps what to say about a pause that is over, and which cards asked.
func remember(t *turn.Turn, p turn.Pause, id, said string, cards []string) {
	click, _ := p.Answered()
	list := state.Of[approvals](t.Conversation)
	list.Decided = newest(append(list.Decided, decided{id, t.Activity.From.ID, said, cards, click}), maxDecided)
}

// ready has a person asked for a call that needs an approval, unless it is approved for good.
func (f *asking) ready(ctx context.Context, t *turn.Turn, c *turn.Pending) (turn.Pause, error) {
	if c.Granted || !c.Approval.Required {
		return nil, nil
	}
	hash, err := c.Hash(ctx)
	if err != nil {
		return nil, err
	}
	stands := func(s standing) bool {
		return s.Hash == hash && s.Asker == t.Activity.From.ID && f.stillStands(ctx, t, c, s)
	}
	if c.Approval.Standing && slices.ContainsFunc(state.Of[approvals](t.Conversation).Standing, stands) {
		t.Count(Counted, "standing")
		zerolog.Ctx(ctx).Info().Str("action", c.Action.Name).Msg("approved before, for good")
		c.Granted = true
		return nil, nil
	}
	entities, err := plainjson.Marshal(c.Entities)
	if err != nil {
		return nil, err
	}
	a := &approval{
		Action: c.Action.Name, Entities: entities, Hash: hash, Reason: c.Approval.Reason, Standing: c.Approval.Standing,
		of: f, call: c,
	}
	a.Approvers, a.Self = f.approversOf(c.Approval)
	a.Change, a.Delegation = c.Approval.Change, c.Approval.Delegation
	if within := c.Action.Within; within != nil && c.Approval.Within == 0 && len(c.Approval.Escalate) == 0 {
		c.Approval.Within = within(c.Entities)
	}
	fault := faultOf(c.Approval, a.Approvers, f.within)
	if len(a.fields(f.viewOf(t))) < len(a.Change) {
		fault = strings.TrimPrefix(fault+"; an entity that may be changed is no text, number or yes or no of the action", "; ")
	}
	if fault != "" {
		zerolog.Ctx(ctx).Error().Str("action", c.Action.Name).Str("fault", fault).Msg("the policy's approval is impossible")
		return nil, turn.Refuse("nobody can approve it: the bot's rules for who approves are wrong, and its log says what is wrong with them")
	}
	return a, nil
}

// stillStands reports whether those who approved a call for good are as many as have to approve it today, and may. If that
// cannot be found out, it is asked again.
func (f *asking) stillStands(ctx context.Context, t *turn.Turn, c *turn.Pending, s standing) bool {
	found, err := c.Find(ctx)
	people, self := f.approversOf(c.Approval)
	for _, e := range c.Approval.Escalate {
		people = slices.Concat(people, e.To)
	}
	asker, a := t.Activity.From, &approval{Self: self}
	people = slices.Concat(people, found)
	a.let(a.others(people, asker), len(people) > 0 || c.Approval.Find != nil || c.Approval.Approvers != nil, c.Approval.Quorum)
	may := 0
	for _, d := range s.Votes {
		who := activity.Account{}
		who.ID, who.AadObjectID = d.ID, d.User
		if a.MayDecide(who, asker, d.In) {
			may++
		}
	}
	return err == nil && may >= max(c.Approval.Quorum, 1)
}

// approversOf are those whom a policy names, and whether the person who asked counts. If it says nothing
// about that, whoever the bot's list names approves, as always.
func (f *asking) approversOf(p actions.Approval) (people []string, self bool) {
	if p.Approvers == nil && p.Find == nil {
		return f.approvers, true
	}
	return p.Approvers, p.Self
}

// MaxWithin limits the time to decide: state is not kept for longer.
const MaxWithin = 720 * time.Hour

// MaxApprovers limits the people who are asked at a time. For more there are chats and channels.
const MaxApprovers = 10

// faultOf says all that makes an approval impossible that lasts for within, if the policy does not say. "": nothing.
func faultOf(p actions.Approval, approvers []string, within time.Duration) string {
	var faults []string
	fault := func(wrong bool, said string) {
		if wrong && !slices.Contains(faults, said) {
			faults = append(faults, said)
		}
	}
	nobody := len(approvers) == 0 && p.Find == nil
	fault(nobody && len(p.Escalate) > 0, "an escalation without approvers")
	fault(nobody && len(p.Escalate) == 0 && p.Approvers != nil, "its list of approvers is empty")
	asked := [][]string{approvers}
	for i, e := range p.Escalate {
		fault(e.After >= cmp.Or(p.Within, within), "an escalation comes after the time to decide")
		fault(len(e.To) == 0 || e.After <= 0 || i > 0 && e.After <= p.Escalate[i-1].After,
			"an escalation asks nobody, or not after the one before it")
		asked = append(asked, e.To)
	}
	people, chats := 0, false
	for _, list := range asked {
		fault(len(list) > MaxApprovers, "more than ten approvers are to be asked at a time")
		for _, id := range list {
			fault(strings.TrimSpace(id) == "", "an approver has no id")
			fault(isName(id), "an approver is given by a user principal name, which is no id")
			chats = chats || strings.HasPrefix(id, threads)
		}
		people += len(list)
	}
	fault(p.Within < 0 || p.Within > MaxWithin, "its time to decide is negative, or longer than 720 hours")
	fault(p.Quorum < 0 || p.Quorum > MaxApprovers, "its quorum is not between 1 and 10")
	fault(!chats && p.Find == nil && p.Quorum > max(people, 1), "its quorum is larger than the number of approvers")
	return strings.Join(faults, "; ")
}

// message is one that asks. It refuses one that is too long, and more than a conversation may wait for.
func message(ctx context.Context, t *turn.Turn, kind string, m *activity.Activity) error {
	raw, err := m.Encode()
	if err != nil || len(raw) > maxMessage {
		return turn.Refuse("its arguments are too long to be shown to a person for approval")
	}
	waiting, err := turn.Waits(ctx, t, kind)
	if err == nil && len(waiting) >= maxWaiting {
		err = turn.Refuse("too many approvals are waiting in this conversation")
	}
	return err
}

// viewOf is how the turn's person sees what is asked.
func (f *asking) viewOf(t *turn.Turn) view {
	return view{
		View:  titles.View{Say: t.Translate, Zone: t.Activity.Zone()},
		Title: func(name string) string { return turn.Title(t, name) }, Action: f.actions.Lookup,
		Asker: t.Activity.From, Program: programOf(t, requests.Program(t), t.Activity.From),
	}
}

// viewOther is how the turn's person sees what another turn asks.
func (f *asking) viewOther(ctx context.Context, t *turn.Turn, w *turn.Waiting) view {
	v, program := f.viewOf(t), requests.Program(w)
	v.Asker = w.Asked.From
	if program != "" && v.Asker.Name == "" && v.Asker.ID != "" { // it does not say
		m, _ := turn.MemberOf(ctx, t, conversationOf(w.Asked), v.Asker.ID)
		v.Asker.Name = m.Name
	}
	v.Program = programOf(t, program, v.Asker)
	if in := w.Asked.Conversation; conversationOf(w.Asked) != conversationOf(t.Activity) {
		v.Place = placeOf(t, in.Name, in.ConversationType)
	}
	return v
}

// programOf is the sentence that a program of that name asks in somebody's name. "": none does.
func programOf(t *turn.Turn, name string, asker activity.Account) string {
	switch {
	case name == "":
		return ""
	case same(asker, t.Activity.From):
		return t.Translate("The program %s asks for this on your behalf.", name)
	}
	return t.Translate("The program %s asks for this on behalf of %s.", name, cmp.Or(titles.Visible(asker.Name), t.Translate("somebody")))
}

// take puts a click into the pause that it is about.
func (c *click) take(ctx context.Context, t *turn.Turn, w *turn.Waiting) (ours bool, refusal string) {
	switch p := w.Pause.(type) {
	case *approval:
		if c.Answers || p.ID != c.ID {
			return false, ""
		}
		v := p.of.viewOther(ctx, t, w)
		c.here = conversationOf(w.Asked) == conversationOf(t.Activity)
		reads := slices.ContainsFunc(p.Sent, func(s sent) bool { return !s.Held && baseOf(s.Conversation) == c.in })
		if p.held() && p.Decision == nil && !reads && (c.by.ID == "" || c.by.ID != w.Asked.From.ID) { // nobody else has read it
			return true, v.Say("You can't decide this. Nothing was done.")
		}
		if p.counted(c) {
			p.Again = true
			return true, ""
		}
		known := p.known()
		refusal = p.judge(ctx, t, w, c)
		changes, fresh := false, refusal == "" && p.namesOthers(known)
		if refusal == "" {
			changes, refusal = p.change(ctx, t, w, v, c)
		}
		if refusal == "" {
			refusal = p.Decide(v, c, time.Now())
		}
		if fresh && !changes && p.Decision == nil && time.Now().Before(p.Expires) { // they are asked, whatever becomes of this click
			p.New, c.refused, refusal = true, refusal, ""
		}
		if c.refused != "" {
			return true, ""
		}
		if refusal == "" && changes {
			p.note(t, w, "changed")
		}
		if refusal == "" {
			p.note(t, w, p.decision())
		}
		if refusal == "" && p.stands != nil {
			turn.NoteFor(t, w, turn.Note{What: "delegation", Outcome: "decided", Action: p.Action, Of: p.Entities, ID: idOf(p.stands.By)})
		}
		if refusal != "" && (p.Decision != nil || time.Now().After(p.Expires)) {
			c.end(ctx, t, p.Closed(v))
		}
		return true, refusal
	case *question:
		if !c.Answers || p.ID != c.ID {
			return false, ""
		}
		if t.Activity.From.ID == "" || t.Activity.From.ID != w.Asked.From.ID {
			zerolog.Ctx(ctx).Warn().Str("audit", "question").Str("user", t.Activity.From.ID).Msg("somebody else answered a question, ignored")
			return true, t.Translate("This question is for somebody else.")
		}
		return true, p.Answer(p.of.viewOf(t), c, time.Now())
	}
	return false, ""
}

// taken returns the card that shows what became of a click.
func (c *click) taken(ctx context.Context, t *turn.Turn, w *turn.Waiting) activity.Card {
	log := zerolog.Ctx(ctx).Info()
	if a, ok := w.Pause.(*approval); ok {
		v := a.of.viewOther(ctx, t, w)
		if c.refused != "" {
			if err := t.TellAlone(ctx, c.refused); err != nil {
				log.Err(err).Msg("nobody reads why a decision does not count")
			}
			if c.here {
				return a.Card(v, "")
			}
			return closing(c.refused)
		}
		if !a.Again {
			t.Count(Counted, strings.TrimSuffix(a.decision(), always))
		}
		if a.Agreed || a.Again && c.activity == a.SendBy {
			v.Asked = a.asked(t)
			return a.Card(v, "")
		}
		if a.Again {
			return a.Closed(v)
		}
		log.Str("approval", a.ID).Str("of_turn", w.Turn).Str("action", a.Action).
			Str("by", t.Activity.From.ID).Str("decision", a.decision()).Msg("approval decided")
		return a.Closed(v)
	}
	q := w.Pause.(*question)
	log.Str("question", q.ID).Str("of_turn", w.Turn).Str("action", q.Action).Bool("declined", q.Given.Declined).Msg("question answered")
	return q.Closed(q.of.viewOf(t))
}

// late says what became of what nobody waits for any more.
func (c *click) late(t *turn.Turn, conversation *state.Scope) (said string, known bool) {
	if d := c.decided(conversation); d.ID != "" {
		return d.Said, true
	}
	if c.Answers {
		return t.Translate("I'm no longer waiting for this answer."), false
	}
	return t.Translate("I'm no longer waiting for this decision. Nothing was done."), false
}

func (c *click) decided(conversation *state.Scope) (d decided) {
	for _, d := range state.Peek[approvals](conversation).Decided {
		if d.ID == c.ID {
			return d
		}
	}
	return d
}

// counted reports whether this very click decided: it comes again if who answered it died.
func (c *click) counted(conversation *state.Scope) bool {
	return c.activity != "" && c.decided(conversation).Click == c.activity
}

func (c *click) endLate(ctx context.Context, t *turn.Turn, conversation *state.Scope, said string) {
	known := c.cards // they show more than that
	if c.here {
		known = append(known, c.decided(conversation).Cards...)
	}
	if !slices.Contains(known, c.card) {
		c.end(ctx, t, closing(said))
	}
}

// end ends the card of a click that is too late: its id may be lost with a process that died before it saved it.
func (c *click) end(ctx context.Context, t *turn.Turn, card activity.Card) {
	m := replacing(t, "", card)
	if c.Answers {
		m = forPerson(t, card)
	}
	turn.Redraw(ctx, t, c.card, m)
}

// closing is a card without buttons that says one thing.
func closing(said string) activity.Card {
	return activity.Card{Fallback: said, Body: []any{heading(said)}, Version: cardVersion}
}

// view is how a person sees what is asked. All but Asker and Program is required.
type view struct {
	titles.View
	Title  func(action string) string // what people call the action
	Action func(name string) (*actions.Action, bool)
	Asker  activity.Account // who wanted what is to be approved
	// Program is the sentence that another program asks in their name. "": none does.
	Program string
	Asked   string // who was asked elsewhere
	Place   string // the sentence where it was asked, for who is asked elsewhere
}

// The verbs of the buttons. Cards of earlier versions have them.
const (
	verbApprove = "planbot/approve"
	verbAlways  = "planbot/approve-always"
	verbReject  = "planbot/reject"
	verbSend    = "planbot/send"
	verbAnswer  = "planbot/answer"
	verbDecline = "planbot/decline"
)

// data is what a button carries, and so a click.
type data struct {
	Approval string `json:"approval,omitempty"`
	Question string `json:"question,omitempty"`
	Hash     string `json:"hash,omitempty"` // of the call on the card
	In       string `json:"in,omitempty"`   // the conversation of the turn, if that is another one
	Verb     string `json:"verb"`
}

// click is what a person says about an approval or a question: with a button of its card or, about an
// approval, in words. [read] makes it.
type click struct {
	ID      string // of the approval or the question
	Answers bool   // it is about a question

	said     data
	in       string                     // the conversation of the click
	here     bool                       // the turn waits in the same one
	inputs   map[string]json.RawMessage // of the card
	by       activity.Account
	activity string   // its id
	card     string   // id of the message with the button; "" in words
	cards    []string // ids of those that are known in the conversation of the click, if that is another one or asked again
	refused  string   // why it does not count, if the turn goes on all the same
	version  string   // of the call, in words, see [approval.version]
	change   string   // the entity that is changed, in words
}

// read reads a click of the activity's person. In words it is /approve or /reject with the id of an
// approval, as text. ok is false for everything else, such as a refresh: its client says what
// somebody sees, not what they decide.
func read(a *activity.Activity, text string) (c *click, ok bool) {
	c = &click{by: a.From, activity: a.ID, in: conversationOf(a), here: true}
	var raw []byte
	verb := &c.said.Verb // Action.Submit has it nowhere else
	switch {
	case a.Type == activity.Message && a.Text == "" && len(a.Value) > 0 && a.Value.Kind() != 'n':
		raw = a.Value
	case a.Type == activity.Message:
		return c, c.readWords(strings.Fields(text))
	case a.Automatic():
		return c, false
	case a.Type == activity.Invoke && a.Name == "adaptiveCard/action":
		var click struct {
			Action struct {
				Type, Verb string
				Data       json.RawMessage
			}
		}
		if json.Unmarshal(a.Value, &click) != nil || click.Action.Type != "Action.Execute" {
			return c, false
		}
		raw, verb = click.Action.Data, &click.Action.Verb
	}
	if json.Unmarshal(raw, &c.said) != nil || json.Unmarshal(raw, &c.inputs) != nil || *verb != c.said.Verb {
		return c, false
	}
	c.card = a.ReplyToID
	switch c.said.Verb {
	case verbApprove, verbAlways, verbReject, verbSend:
		c.ID = c.said.Approval
		return c, c.ID != "" && c.said.Hash != ""
	case verbAnswer, verbDecline:
		c.ID, c.Answers = c.said.Question, true
		return c, c.ID != ""
	}
	return c, false
}

// conversationOf is the activity's conversation, with all its threads.
func conversationOf(a *activity.Activity) string { return a.Conversation.BaseID() }

const (
	whyInput = "why"
	maxWhy   = 500 // characters
)

// why is the reason that a person gives for what they want.
func (c *click) why() string {
	var given string
	_ = json.Unmarshal(c.inputs[whyInput], &given) // else they give none
	return why(given)
}

// why is the beginning of a reason.
func why(given string) string {
	runes := []rune(strings.TrimSpace(given))
	return string(runes[:min(len(runes), maxWhy)])
}

// readWords reads the words of a message. After /approve and the id may come always, send and a reason, or
// what is to be changed: a name, = and a value.
func (c *click) readWords(words []string) bool {
	if len(words) < 2 {
		return false
	}
	c.ID = strings.ToLower(words[1]) // as the bot wrote it
	if at := strings.IndexByte(c.ID, '-'); at > 0 {
		c.ID, c.version = c.ID[:at], c.ID[at:]
	}
	if len(words) > 2 && strings.EqualFold(words[0]+words[2], "/approvesend") {
		c.said.Verb = verbSend
		why, _ := json.Marshal(strings.Join(words[3:], " "))
		c.inputs = map[string]json.RawMessage{whyInput: why}
		return true
	}
	if len(words) > 2 && strings.EqualFold(words[0], "/approve") {
		name, value, changes := strings.Cut(strings.Join(words[2:], " "), "=")
		if changes {
			raw, _ := json.Marshal(strings.TrimSpace(value))
			c.said.Verb, c.change = verbApprove, strings.TrimSpace(name)
			c.inputs = map[string]json.RawMessage{changeInput + c.change: raw}
			return true
		}
	}
	switch strings.ToLower(strings.Join(slices.Delete(words, 1, 2), " ")) {
	case "/approve":
		c.said.Verb = verbApprove
	case "/approve always":
		c.said.Verb = verbAlways
	case "/reject":
		c.said.Verb = verbReject
	}
	return c.said.Verb != ""
}

// cardVersion is the schema that introduced Action.Execute.
const cardVersion = "1.4"

func button(title, style string, d data) activity.Button {
	return activity.Button{Title: title, Style: style, Verb: d.Verb, Data: d, Bare: d.Verb == verbDecline}
}

func heading(text string) activity.TextBlock {
	return activity.TextBlock{Text: text, Weight: "bolder", Size: "medium"}
}

// line shows a bold word and a value beside it; neither is read as markdown.
func line(word, value string) activity.RichText {
	runs := activity.RichText{{Text: word, Weight: "bolder"}}
	if value != "" {
		runs = append(runs, activity.TextBlock{Text: value, Mono: true})
	}
	return runs
}

func small(text string) activity.RichText {
	return activity.RichText{{Text: text, Subtle: true, Size: "small"}}
}
