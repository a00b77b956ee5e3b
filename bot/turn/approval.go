package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/internal/ask"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// The bot asks for an approval with a card. The record then waits outside of its queue, and the
// conversation continues. The decision is a turn of its own, in a queue beside the conversation's,
// so that it is answered at once. It puts the decision into the record and the record back into its
// queue, in one step that works only once. The turn then continues with the call that waited, or
// without it.

const (
	// maxApprovals limits the approvals that one conversation waits for.
	maxApprovals = 16
	// maxStanding limits the approvals for good, and maxDecided the decisions remembered for late
	// clicks. Beyond that the oldest goes.
	maxStanding, maxDecided = 100, 48
	// afterExpiry is how long a record waits after an approval expires: a decision of the last
	// moment may still be on its way.
	afterExpiry = time.Minute
	// maxQuestion is how many bytes a message that asks may have. Teams accepts 28 KB of a card.
	maxQuestion = 26 << 10
)

// errChanged ends an approved turn if the bot has changed meanwhile and would do something else
// than the person saw.
var errChanged = errors.New("the approved call is not the one that would be made now")

// approvals is what a conversation's state stores about them.
type approvals struct {
	Standing []standing `json:"standing,omitempty"`
	Decided  []decided  `json:"decided,omitempty"`
}

// standing is a call that was approved for good: for the person who asked, in this conversation.
type standing struct {
	Hash  string    `json:"hash"`
	Asker string    `json:"asker"`
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
}

// decided is what to say about an approval or a question that nobody waits for any more.
type decided struct {
	ID    string `json:"id"`
	Asker string `json:"asker"`
	Said  string `json:"said"`
}

// approve asks the policy about a call. An approved call needs no more if it is exactly the one that
// the person saw and the policy still allows it.
func (x *execution) approve(ctx context.Context, c *call, approved string) error {
	if c.err != nil {
		return nil
	}
	approval, err := x.policy(ctx, x.describe(c))
	if is[*refusal](err) {
		zerolog.Ctx(ctx).Info().Str("action", c.action.Name).Msg("the policy denies the call")
		if x.mayHaveStarted > 0 {
			return x.notApproved()
		}
		c.err = err
		return nil
	}
	if err != nil || approved == "" && !approval.Required {
		return err
	}
	if c.hash, err = x.approvalHash(ctx, c, approval.Bind); err != nil {
		return err
	}
	stands := func(s standing) bool { return s.Hash == c.hash && s.Asker == x.Activity.From.ID }
	switch {
	case approved != "":
		if c.granted = c.hash == approved; !c.granted {
			return x.notApproved()
		}
	case approval.Standing && slices.ContainsFunc(state.Of[approvals](x.Conversation).Standing, stands):
		x.Count(CountApprovals, "standing")
		zerolog.Ctx(ctx).Info().Str("action", c.action.Name).Msg("approved before, for good")
		c.granted = true
	case x.mayHaveStarted > 0:
		return x.notApproved()
	default:
		c.asks = approval
	}
	return nil
}

// policy asks the policy about a call. A call that it denies is a refusal.
func (x *execution) policy(ctx context.Context, c actions.Call) (actions.Approval, error) {
	c.Salvaged = c.Salvaged || x.Distrusted() || c.Action.Doubtful(c.Entities)
	approval, err := x.engine.cfg.Policy(ctx, x.Turn.Turn, c)
	switch {
	case err != nil:
		return approval, fmt.Errorf("approval policy: %w", err)
	case approval.Denied != "":
		return actions.Approval{}, &refusal{approval.Denied}
	}
	return approval, nil
}

// notApproved says that the call may not be made any more, or differs from the approved one. If a
// dead process had started it, it may have been made: then nobody is told that it was not, and an
// operator has to look at it.
func (x *execution) notApproved() error {
	if x.mayHaveStarted == 0 {
		return errChanged
	}
	return &deadLetter{reason: "a call that had begun may not be made any more, or is not the one that was approved"}
}

// approvalHash identifies everything that the call will do: the action, what it consists of and where it
// comes from, its entities, what the bot fills in, and what the policy binds it to.
func (x *execution) approvalHash(ctx context.Context, c *call, bind string) (string, error) {
	bound, err := c.action.Bound(ctx, x.Turn.Turn)
	if err != nil {
		return "", err
	}
	parts := []any{c.action.Name, c.action.Detail, c.command.Entities, bound}
	if bind != "" {
		parts = append(parts, bind)
	}
	if c.action.Source != (actions.Source{}) {
		parts = append(parts, c.action.Source)
	}
	return hashOf(parts...), nil
}

// ask asks a person to approve the next call. Once the question is sent, the record waits.
func (x *execution) ask(ctx context.Context, c *call) (next, error) {
	run := x.rec.Run
	entities, err := plainjson.Marshal(c.command.Entities)
	if err != nil {
		return next{}, fmt.Errorf("write the call for approval: %w", err)
	}
	id := x.ID
	if run.Asked++; run.Asked > 1 {
		id += strconv.Itoa(run.Asked)
	}
	a := &ask.Approval{
		ID: id, Action: c.action.Name, Entities: entities, Hash: c.hash,
		Reason: c.asks.Reason, Standing: c.asks.Standing, Approvers: c.asks.Approvers,
		Expires: time.Now().Add(cmp.Or(c.asks.Within, x.engine.cfg.ApprovalTimeout)).UTC().Truncate(time.Second),
	}
	if len(a.Approvers) == 0 {
		a.Approvers = x.engine.cfg.Approvers
	}
	if asker := x.Activity.From; privateTo(x.Turn) != "" && !a.MayDecide(asker, asker) {
		return next{}, x.notHere()
	}
	if len(a.Approvers) == 0 && x.Activity.From.ID == "" {
		return x.refuseCall(ctx, c, "nobody here can approve it: no person asked for it, and the bot has no approvers")
	}
	question := x.question(a)
	if raw, err := question.Encode(); err != nil || len(raw) > maxQuestion {
		return x.refuseCall(ctx, c, "its arguments are too long to be shown to a person for approval")
	}
	waiting, err := waitsOf(ctx, x.Turn, conversationKey(x.Turn), "", forApproval)
	if err != nil {
		return next{}, err
	}
	if len(waiting) >= maxApprovals {
		return x.refuseCall(ctx, c, "too many approvals are waiting in this conversation")
	}
	x.rec.Wait = asked{Approval: a}.wait()
	remember(x.Turn)
	noteApproval(x.Turn, &x.rec, a, "asked")
	x.Count(CountApprovals, "asked")
	zerolog.Ctx(ctx).Info().Str("approval", a.ID).Str("action", a.Action).Msg("waits for approval")
	return x.put([]*activity.Activity{question})
}

// noteApproval notes what became of an approval in rec, which is the turn's own record or the one that a
// person decides with this turn.
func noteApproval(t *Turn, rec *Record, a *ask.Approval, outcome string) {
	noteFor(t, rec, Note{What: "approval", Outcome: outcome, Action: a.Action, Of: a.Entities, ID: a.ID})
}

// notHere ends a plan that somebody else would have to approve, who cannot see the private question.
func (x *execution) notHere() error {
	said := x.Translate("Somebody else has to approve this, and they can't see our private messages. Please ask me where they can.")
	if did := titlesOf(x.Turn, completed(x.Outcomes())); len(did) > 0 {
		said += " " + x.Translate("Before that I did: %s.", strings.Join(did, ", "))
	}
	return &stopError{said}
}

// refuseCall fails a call before it is made.
func (x *execution) refuseCall(ctx context.Context, c *call, reason string) (next, error) {
	c.err = &refusal{reason}
	x.docs.snapshot()
	return x.settle(ctx, []call{*c}, 0)
}

// replaceNote replaces the history's note of a turn that waits. With "" it removes the turn, which is
// written again when it ends.
func (x *execution) replaceNote(a asked, note string) {
	x.rec.Remembered = note != ""
	waiting, _ := a.note()
	history := state.Of[prompts.History](x.Thread)
	history.Turns = slices.DeleteFunc(history.Turns, func(turn prompts.Turn) bool {
		at := slices.IndexFunc(turn.Messages, func(m prompts.Message) bool { return m.Role == "system" && m.Text == waiting })
		if at >= 0 && note != "" {
			turn.Messages[at].Text = note
		}
		return at >= 0 && note == ""
	})
}

// decided acts on the decision. Without one, the approval has expired.
func (x *execution) decided(ctx context.Context, a *ask.Approval) (next, error) {
	run, d, asker := x.rec.Run, a.Decision, x.Activity.From.ID
	come := goOnTo(running)
	x.resumed = true
	list := state.Of[approvals](x.Conversation)
	list.Decided = newest(append(list.Decided, decided{a.ID, asker, a.Late(viewOf(x.Turn))}), maxDecided)
	switch {
	case d == nil:
		x.Count(CountApprovals, "expired")
		noteApproval(x.Turn, &x.rec, a, "expired")
		if r := requestOf(x.Turn); r != nil {
			r.Status = actions.RequestExpired
		}
		x.replaceNote(asked{Approval: a}, "["+a.Action+" was not approved in time. It did not run.]")
		x.rec.Run = nil
		come = goOnTo(done)
	case d.Approved:
		if d.Always {
			list.Standing = newest(append(list.Standing, standing{a.Hash, asker, d.By, d.At}), maxStanding)
		}
		x.replaceNote(asked{Approval: a}, "")
		run.Approved, run.Decided, x.since.progressed = a.Hash, &decidedCall{a.Action, true}, true
	case x.owesAfter():
		run.Decided = &decidedCall{Action: a.Action}
		come = x.goOnWithout(asked{Approval: a}, rejected)
	default:
		if r := requestOf(x.Turn); r != nil {
			r.Status = actions.RequestRejected
		}
		said := x.wontDo(a.Action)
		x.replaceNote(asked{Approval: a}, "["+said+"]")
		x.rec.Run = nil
		var err error
		come, err = x.put(messagesOf(x.Turn, said))
		if err != nil {
			return next{}, err
		}
	}
	x.updateCard(ctx, a)
	return come, nil
}

// owesAfter reports whether there is more to say than that the call was rejected: a model that
// waits for the results of its calls has not seen some, or the person was not told of a command
// that found nothing to act on.
func (x *execution) owesAfter() bool {
	p := x.rec.Run.Progress
	return p.Owes() || p.Plan.Observe && slices.ContainsFunc(x.round().Outcomes, func(o actions.Outcome) bool {
		return o.Action != plan.Say && !o.Failed && o.Text != ""
	})
}

// wontDo says that the next call, and what was to follow, is not made.
func (x *execution) wontDo(action string) string {
	if rest := x.rest(); rest != "" {
		return x.Translate("OK, I won't do this: %s. I also won't do what came after it: %s.", titleOf(x.Turn, action), rest)
	}
	return x.Translate("OK, I won't do this: %s.", titleOf(x.Turn, action))
}

// goOnWithout has the planner plan again, with what was done before the call that waited, and why that
// is not made.
func (x *execution) goOnWithout(a asked, why string) next {
	run := x.rec.Run
	x.replaceNote(a, "")
	run.Steps++
	c := x.check(run.Progress.Next)
	c.result = actions.Fail("%s", why)
	x.record(&c)
	x.leaveOut()
	run.Progress = nil
	x.since.progressed = true
	return saveThen(planning)
}

// rest names the actions after the rejected one, which do not run either.
func (x *execution) rest() string {
	var names []string
	p := x.rec.Run.Progress
	for _, c := range p.Plan.Commands[p.Next+1:] {
		if c.Kind == plan.Do {
			names = append(names, titleOf(x.Turn, c.Action))
		}
	}
	return strings.Join(names, ", ")
}

// newest is the end of a list.
func newest[E any](list []E, most int) []E { return slices.Delete(list, 0, max(0, len(list)-most)) }

// updateCard shows everybody who decided. A failure is harmless.
func (x *execution) updateCard(ctx context.Context, a *ask.Approval) {
	if a.CardID == "" || repliesInResponse(x.Turn) || !x.ShowsCards() {
		return
	}
	m := x.Message("")
	m.ReplyToID = ""
	m.Attachments = []activity.Attachment{a.Closed(viewOf(x.Turn)).Attachment()}
	if person := privateTo(x.Turn); person != "" {
		m.Target(person)
	}
	ctx, cancel := context.WithTimeout(ctx, reactWithin)
	defer cancel()
	if err := x.engine.cfg.Channel.Update(ctx, x.Activity.Reference(), a.CardID, m); err != nil {
		zerolog.Ctx(ctx).Info().Str("error", cause(err)).Msg("the approval card was not updated")
	}
}

// question asks for the approval: with a card if the channel renders them, else in words.
func (x *execution) question(a *ask.Approval) *activity.Activity {
	if !x.ShowsCards() {
		return x.Message(a.Words(viewOf(x.Turn)))
	}
	m := x.Message("")
	m.Summary = x.Translate("Approval needed: %s", titleOf(x.Turn, a.Action))
	m.Attachments = []activity.Attachment{a.Card(viewOf(x.Turn)).Attachment()}
	return m
}

// viewOf is how the turn's person sees what is asked.
func viewOf(t *Turn) ask.View {
	return ask.View{
		View:   titles.View{Say: t.Translate, Zone: t.Activity.Zone()},
		Title:  func(name string) string { return titleOf(t, name) },
		Action: t.engine.cfg.Actions.Lookup, Asker: t.Activity.From, Program: askingProgram(t),
		Alone: t.Activity.Conversation.Personal(),
	}
}

// OwnVerbs is the prefix of the verbs of the bot's own buttons, those of package ask among them.
const OwnVerbs = "planbot/"

// decideWithin is how long a click looks for a record that is about to wait.
const decideWithin = 12 * time.Second

const (
	noDecision texts.Text = "I'm no longer waiting for this decision. Nothing was done."
	noAnswer   texts.Text = "I'm no longer waiting for this answer."
)

// errNotYet says that no record waits for a click, but a turn is running that may be about to ask.
var errNotYet = errors.New("nothing is waiting yet")

// click is what a person answers to what a record waits for.
type click struct{ ask.Click }

// deliver is the handler of a click. It stores the click in the record that waits for it and puts that
// record back into its queue, in one step. So the click is answered at once and is not lost. A click that
// does not count changes nothing, and the person reads why.
func (c click) deliver(ctx context.Context, t *Turn) error {
	until, gone, tell := time.Now().Add(decideWithin), noDecision, t.Tell
	if c.Answers {
		gone, tell = noAnswer, t.TellAlone
	}
	err := c.deliverOnce(ctx, t, gone)
	for errors.Is(err, errNotYet) && time.Now().Before(until) {
		wait(ctx, 100*time.Millisecond, nil)
		err = c.deliverOnce(ctx, t, gone)
	}
	if errors.Is(err, errNotYet) {
		err = c.queued(ctx, t, gone)
	}
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
		return err
	case t.Activity.Type != activity.Invoke:
		return tell(ctx, refused.reason)
	}
	t.Answer(t.engine.cfg.Clicked(nil, refused.reason)) // only the person who clicked reads it
	if t.engine.cfg.Unread(t) {                         // they were told that it was noted
		return t.TellAlone(ctx, refused.reason)
	}
	return nil
}

// queued refuses a click with what another one has decided, whose record is still in its queue; if there is
// none, with gone.
func (c click) queued(ctx context.Context, t *Turn, gone texts.Text) error {
	all, err := t.engine.inbox.Records(ctx, conversationKey(t))
	if err != nil {
		return err
	}
	for _, raw := range all {
		rec, err := Decode(raw)
		if err != nil || rec.Wait == nil {
			continue
		}
		if a := rec.Wait.Approval; a != nil && a.ID == c.ID && a.Decision != nil {
			return &refusal{a.Late(viewOf(t))}
		}
		if q := rec.Wait.Question; q != nil && q.ID == c.ID && q.Reply != nil {
			return &refusal{q.Late(viewOf(t))}
		}
	}
	return &refusal{t.Translate(gone)}
}

func (c click) deliverOnce(ctx context.Context, t *Turn, gone texts.Text) error {
	e, queue := t.engine, conversationKey(t)
	running, err := e.inbox.Queued(ctx, queue) // ask before Find: the record may begin to wait in between
	if err != nil {
		return err
	}
	w, err := e.inbox.Find(ctx, queue, c.ID[:min(len(c.ID), idLen)])
	if errors.Is(err, inbox.ErrNoRecord) {
		return past(ctx, t, queue, c.ID, running > 0, gone)
	}
	if err != nil {
		return err
	}
	rec, err := Decode(w.Record)
	if err != nil {
		return err
	}
	asked, err := rec.Read()
	if err != nil {
		return err
	}
	own := t.Activity.Locale
	t.Activity.Locale = cmp.Or(own, asked.Locale)
	if ours, err := c.take(ctx, t, &rec, asked); !ours {
		t.Activity.Locale = own
		return past(ctx, t, queue, c.ID, false, gone)
	} else if err != nil {
		return err
	}
	rec.Caller = t.rec.Caller // the click just proved its address
	rec.Caller.ServiceURL = t.Activity.ServiceURL
	rec.Awaited, rec.Answer = false, nil
	answer := Answer{}
	if repliesInResponse(t) {
		rec.Awaited, rec.Answer, answer.Follows = true, &Answer{Activities: t.rec.Answer.Activities}, rec.ID
	}
	raw, err := rec.Encode()
	if err == nil {
		err = e.inbox.Wake(ctx, w, raw)
	}
	if errors.Is(err, inbox.ErrNoRecord) {
		return errNotYet
	}
	if err != nil {
		return err
	}
	if card := clickCard(ctx, t, &rec, asked); t.Activity.Type == activity.Invoke {
		answer = e.cfg.Clicked(&card, "")
	}
	t.Answer(answer)
	return nil
}

// take puts a click into the record. It returns false if the record waits for something else, and a refusal
// if the click does not count.
func (c click) take(ctx context.Context, t *Turn, rec *Record, asked *activity.Activity) (ours bool, err error) {
	w, by, v, now, refused := rec.Wait, t.Activity.From, viewOf(t), time.Now(), ""
	v.Asker = asked.From
	switch {
	case !c.Answers && w.For == forApproval && w.Approval.ID == c.ID:
		if refused = w.Approval.Decide(v, c.Click, now); refused == "" {
			outcome := decisionOf(w.Approval)
			if w.Approval.Decision.Always {
				outcome += "-always"
			}
			noteApproval(t, rec, w.Approval, outcome)
		}
	case c.Answers && w.For == forAnswer && w.Question != nil && w.Question.ID == c.ID:
		if by.ID == "" || by.ID != asked.From.ID {
			zerolog.Ctx(ctx).Warn().Str("audit", "question").Str("user", by.ID).Msg("somebody else answered a question, ignored")
			return true, &refusal{t.Translate("This question is for somebody else.")}
		}
		refused = w.Question.Answer(v, c.Click, now)
	default:
		return false, nil
	}
	if refused != "" {
		err = &refusal{refused}
	}
	return true, err
}

// clickCard returns the card that shows what became of a click. The record is back in its queue.
func clickCard(ctx context.Context, t *Turn, rec *Record, asked *activity.Activity) activity.Card {
	v, log := viewOf(t), zerolog.Ctx(ctx).Info()
	v.Asker = asked.From
	if a := rec.Wait.Approval; a != nil {
		t.Count(CountApprovals, decisionOf(a))
		log.Str("approval", a.ID).Str("of_turn", rec.ID).Str("action", a.Action).
			Str("by", t.Activity.From.ID).Bool("approved", a.Decision.Approved).Msg("approval decided")
		return a.Closed(v)
	}
	q := rec.Wait.Question
	log.Str("question", q.ID).Str("of_turn", rec.ID).Str("action", q.Action).Bool("declined", q.Reply.Declined).Msg("question answered")
	return q.Closed(v)
}

// decisionOf is the decision for metrics and the audit.
func decisionOf(a *ask.Approval) string {
	if a.Decision.Approved {
		return "approved"
	}
	return "rejected"
}

// past says what became of an approval or a question that nobody waits for; unknown, if that is not known.
func past(ctx context.Context, t *Turn, queue state.Key, id string, running bool, unknown texts.Text) error {
	scopes, err := t.engine.cfg.Store.Load(ctx, queue)
	if err != nil {
		return err
	}
	t.Activity.Locale = cmp.Or(t.Activity.Locale, state.Of[reference](scopes[0]).Locale)
	list := state.Of[approvals](scopes[0]).Decided
	if at := slices.IndexFunc(list, func(d decided) bool { return d.ID == id }); at >= 0 {
		t.Count(CountDuplicates, "click")
		return &refusal{list[at].Said}
	}
	if running {
		return errNotYet
	}
	return &refusal{t.Translate(unknown)}
}
