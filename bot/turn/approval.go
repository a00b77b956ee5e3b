package turn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
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
	// decideWithin is how long a decision looks for a record that is about to wait.
	decideWithin = 12 * time.Second
)

const (
	noLonger texts.Text = "I'm no longer waiting for this decision. Nothing was done."
	tooLate  texts.Text = "This was not decided in time. Nothing was done."
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
		if x.begun > 0 {
			return x.notApproved(c)
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
			return x.notApproved(c)
		}
	case approval.Standing && slices.ContainsFunc(state.Of[approvals](x.Conversation).Standing, stands):
		count(x.engine.meter.approvals, "standing")
		zerolog.Ctx(ctx).Info().Str("action", c.action.Name).Msg("approved before, for good")
		c.granted = true
	default:
		c.asks = approval
	}
	return nil
}

// policy asks the policy about a call. A call that it denies is a refusal.
func (x *execution) policy(ctx context.Context, c actions.Call) (actions.Approval, error) {
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
func (x *execution) notApproved(c *call) error {
	if x.begun == 0 {
		return errChanged
	}
	x.uncertain = append(x.uncertain, c.command.Action)
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
func (x *execution) ask(ctx context.Context, c *call) error {
	run := x.rec.Run
	entities, err := encode(c.command.Entities)
	if err != nil {
		return fmt.Errorf("write the call for approval: %w", err)
	}
	id := x.ID
	if run.Asked++; run.Asked > 1 {
		id += strconv.Itoa(run.Asked)
	}
	a := &Approval{
		ID: id, Action: c.action.Name, Entities: entities, Hash: c.hash,
		Reason: c.asks.Reason, Standing: c.asks.Standing, Approvers: c.asks.Approvers,
		Expires: time.Now().Add(cmp.Or(c.asks.Within, x.engine.cfg.ApprovalTimeout)).UTC().Truncate(time.Second),
	}
	if len(a.Approvers) == 0 {
		a.Approvers = x.engine.cfg.Approvers
	}
	if asker := x.Activity.From; x.private() != "" && !a.mayDecide(asker, asker) {
		return x.notHere()
	}
	if len(a.Approvers) == 0 && x.Activity.From.ID == "" {
		return x.refuseCall(ctx, c, "nobody here can approve it: no person asked for it, and the bot has no approvers")
	}
	question := x.question(a)
	if raw, err := question.Encode(); err != nil || len(raw) > maxQuestion {
		return x.refuseCall(ctx, c, "its arguments are too long to be shown to a person for approval")
	}
	waiting, err := x.engine.inbox.Waiting(ctx, queueOf(actions.To(x.Activity)))
	if err != nil {
		return err
	}
	waiting = slices.DeleteFunc(waiting, func(w inbox.Waiting) bool { return readWait(w).For != forApproval })
	if len(waiting) >= maxApprovals {
		return x.refuseCall(ctx, c, "too many approvals are waiting in this conversation")
	}
	x.rec.Wait = x.approvalWait(a)
	x.remember()
	audit{x.Turn}.approval(&x.rec, a, "asked")
	count(x.engine.meter.approvals, "asked")
	zerolog.Ctx(ctx).Info().Str("approval", a.ID).Str("action", a.Action).Msg("waits for approval")
	return x.put([]*activity.Activity{question})
}

// notHere ends a plan that somebody else would have to approve, who cannot see the private question.
func (x *execution) notHere() error {
	said := x.Translate("Somebody else has to approve this, and they can't see our private messages. Please ask me where they can.")
	if did := x.titles(completed(x.Outcomes())); len(did) > 0 {
		said += " " + x.Translate("Before that I did: %s.", strings.Join(did, ", "))
	}
	return &stopError{said}
}

// refuseCall fails a call before it is made.
func (x *execution) refuseCall(ctx context.Context, c *call, reason string) error {
	c.err = &refusal{reason}
	return x.settle(ctx, []call{*c}, 0)
}

// waitingNote is what the history says about a turn while it waits.
func waitingNote(a *Approval) string {
	return "[A person was asked to approve " + a.Action + ", " + a.ID + ". It has not run yet.]"
}

// renote replaces the history's note of a turn that waits for an approval. With "" it removes the
// turn, which is written again when it ends.
func (x *execution) renote(a *Approval, note string) { x.replaceNote(waitingNote(a), note) }

// replaceNote replaces the note of a turn that waits.
func (x *execution) replaceNote(waiting, note string) {
	x.rec.Remembered = note != ""
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
func (x *execution) decided(ctx context.Context, a *Approval) error {
	run, d, asker := x.rec.Run, a.Decision, x.Activity.From.ID
	x.resumed, x.rec.Phase = true, running
	said, list := x.Translate(tooLate), state.Of[approvals](x.Conversation)
	if d != nil {
		said = x.Translate("This was already decided: %s.", d.inWords(x.Turn))
	}
	list.Decided = newest(append(list.Decided, decided{a.ID, asker, said}), maxDecided)
	switch {
	case d == nil:
		count(x.engine.meter.approvals, "expired")
		audit{x.Turn}.approval(&x.rec, a, "expired")
		if r := (requests{x.Turn}).of(); r != nil {
			r.Status = actions.RequestExpired
		}
		x.renote(a, "["+a.Action+" was not approved in time. It did not run.]")
		x.rec.Run, x.rec.Phase = nil, done
	case d.Approved:
		if d.Always {
			list.Standing = newest(append(list.Standing, standing{a.Hash, asker, d.By, d.At}), maxStanding)
		}
		x.renote(a, "")
		run.Approved, run.Decided, x.since.progressed = a.Hash, &decidedCall{a.Action, true}, true
	case x.owesAfter():
		run.Decided = &decidedCall{Action: a.Action}
		x.goOnWithout(waitingNote(a), rejected)
	default:
		if r := (requests{x.Turn}).of(); r != nil {
			r.Status = actions.RequestRejected
		}
		said = x.wontDo(a.Action)
		x.renote(a, "["+said+"]")
		x.rec.Run = nil
		if err := x.put(x.messages(said)); err != nil {
			return err
		}
	}
	x.updateCard(ctx, a)
	return nil
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
		return x.Translate("OK, I won't do this: %s. I also won't do what came after it: %s.", x.title(action), rest)
	}
	return x.Translate("OK, I won't do this: %s.", x.title(action))
}

// goOnWithout has the planner plan again, with what was done before the call that waited, and why that
// is not made.
func (x *execution) goOnWithout(waiting, why string) {
	run := x.rec.Run
	x.replaceNote(waiting, "")
	run.Steps++
	c := x.check(run.Progress.Next)
	c.result = actions.Fail("%s", why)
	x.record(&c)
	x.leaveOut()
	run.Progress, x.rec.Phase, x.since.progressed, x.since.due = nil, planning, true, true
}

// rest names the actions after the rejected one, which do not run either.
func (x *execution) rest() string {
	var names []string
	p := x.rec.Run.Progress
	for _, c := range p.Plan.Commands[p.Next+1:] {
		if c.Kind == plan.Do {
			names = append(names, x.title(c.Action))
		}
	}
	return strings.Join(names, ", ")
}

// newest is the end of a list.
func newest[E any](list []E, most int) []E { return slices.Delete(list, 0, max(0, len(list)-most)) }

// updateCard shows everybody who decided. A failure is harmless.
func (x *execution) updateCard(ctx context.Context, a *Approval) {
	if a.CardID == "" || x.repliesInResponse() || !x.ShowsCards() {
		return
	}
	m := x.Message("")
	m.ReplyToID = ""
	m.Attachments = []activity.Attachment{a.decidedCard(x.Turn, x.Activity.From).Attachment()}
	if person := x.private(); person != "" {
		m.Target(person)
	}
	if err := x.engine.cfg.Channel.Update(ctx, x.Activity.Reference(), a.CardID, m); err != nil {
		zerolog.Ctx(ctx).Info().Str("error", cause(err)).Msg("the approval card was not updated")
	}
}

// decision is what a person says about an approval.
type decision struct {
	Approval string `json:"approval"`
	Hash     string `json:"hash"` // of the call on the card; "" if said in words
	Verb     string `json:"verb"`
}

// OwnVerbs is the prefix of the verbs of the bot's own buttons.
const OwnVerbs = "planbot/"

const (
	verbApprove = OwnVerbs + "approve"
	verbAlways  = OwnVerbs + "approve-always"
	verbReject  = OwnVerbs + "reject"
)

func (d *decision) approves() bool { return d.Verb == verbApprove || d.Verb == verbAlways }

// decisionOf reads the decision in a turn: a click on a button of an approval, or /approve or
// /reject with its id.
func decisionOf(t *Turn) (d decision, ok bool) {
	switch a := t.Activity; {
	case t.IsExecute():
		var click struct {
			Action struct {
				Type, Verb string
				Data       decision
			}
		}
		if json.Unmarshal(a.Value, &click) != nil || click.Action.Type != "Action.Execute" || click.Action.Verb != click.Action.Data.Verb {
			return d, false
		}
		d = click.Action.Data
	case t.IsSubmit():
		if json.Unmarshal(a.Value, &d) != nil {
			return d, false
		}
	case t.IsMessage():
		return saidDecision(t.Text)
	}
	return d, d.Approval != "" && d.Hash != "" && (d.approves() || d.Verb == verbReject)
}

// saidDecision reads /approve and /reject with the id of an approval. After /approve and the id may
// come always.
func saidDecision(text string) (d decision, ok bool) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return d, false
	}
	d.Approval = words[1]
	switch strings.ToLower(strings.Join(slices.Delete(words, 1, 2), " ")) {
	case "/approve":
		d.Verb = verbApprove
	case "/approve always":
		d.Verb = verbAlways
	case "/reject":
		d.Verb = verbReject
	}
	return d, d.Verb != ""
}

// decider is a turn that brings a decision.
type decider struct {
	*Turn
	decision
}

func (t *decider) decide(ctx context.Context) error {
	return t.bring(ctx, t.Approval, noLonger, t, t.Tell)
}

func (t *decider) refuse(sentence texts.Text) error { return &refusal{t.Translate(sentence)} }

func (t *decider) take(_ context.Context, rec *Record, asked *activity.Activity) (bool, error) {
	a, by, now := rec.Wait.Approval, t.Activity.From, time.Now()
	switch {
	case rec.Wait.For != forApproval || a.ID != t.Approval:
		return false, nil
	case t.Hash != "" && t.Hash != a.Hash:
		return true, t.refuse("This card is for a different call. Nothing was done.")
	case now.After(a.Expires):
		return true, t.refuse(tooLate)
	case !a.mayDecide(by, asked.From):
		return true, t.refuse("You can't decide this. Nothing was done.")
	}
	a.Decision = &Decision{
		Approved: t.approves(), Always: t.Verb == verbAlways && a.Standing,
		By: cmp.Or(by.Name, by.ID), At: now.UTC().Truncate(time.Second), Click: t.Activity.ID,
	}
	if a.CardID == "" && (t.Activity.Type == activity.Invoke || t.IsSubmit()) {
		a.CardID = t.Activity.ReplyToID
	}
	outcome := a.Decision.word()
	if a.Decision.Always {
		outcome += "-always"
	}
	audit{t.Turn}.approval(rec, a, outcome)
	return true, nil
}

func (t *decider) taken(ctx context.Context, rec *Record, asked *activity.Activity) activity.Card {
	a := rec.Wait.Approval
	count(t.engine.meter.approvals, a.Decision.word())
	zerolog.Ctx(ctx).Info().Str("approval", a.ID).Str("of_turn", rec.ID).Str("action", a.Action).
		Str("by", t.Activity.From.ID).Bool("approved", a.Decision.Approved).Msg("approval decided")
	return a.decidedCard(t.Turn, asked.From)
}

// mayDecide reports whether that person may decide.
func (a *Approval) mayDecide(who, asker activity.Account) bool {
	allowed := a.Approvers
	if len(allowed) == 0 {
		allowed = []string{asker.ID, asker.AadObjectID}
	}
	return slices.ContainsFunc(allowed, func(id string) bool {
		return id != "" && (id == who.ID || strings.EqualFold(id, who.AadObjectID))
	})
}

// inWords says who decided what, and when.
func (d *Decision) inWords(t *Turn) string {
	sentence := texts.Text("Rejected by %s, %s")
	switch {
	case d.Approved && d.Always:
		sentence = "Approved for good by %s, %s"
	case d.Approved:
		sentence = "Approved by %s, %s"
	}
	return t.Translate(sentence, cmp.Or(titles.Visible(d.By), t.Translate("somebody")), viewOf(t).Clock(d.At))
}

func (d *Decision) word() string {
	if d.Approved {
		return "approved"
	}
	return "rejected"
}

const (
	// maxQuestion is how many bytes a message that asks for an approval may have. Teams accepts 28
	// KB of a card.
	maxQuestion = 26 << 10
	// maxWords is how many of them may be the question in words, for clients that render no cards.
	// A longer one is only for clients that do.
	maxWords = 4 << 10
	// approvalVersion is the schema that introduced Action.Execute.
	approvalVersion = "1.4"
)

// question asks for the approval: with a card if the channel renders them, else in words.
func (x *execution) question(a *Approval) *activity.Activity {
	words := a.inWords(x.Turn)
	if !x.ShowsCards() {
		return x.Message(words + a.choices(x.Turn, "**"))
	}
	card := a.askingCard(x.Turn)
	if len(words) <= maxWords {
		card.Fallback = words + a.choices(x.Turn, "")
	}
	m := x.Message("")
	m.Summary = x.Translate("Approval needed: %s", x.title(a.Action))
	m.Attachments = []activity.Attachment{card.Attachment()}
	return m
}

// choices says in words how to decide, each command between two marks.
func (a *Approval) choices(t *Turn, mark string) string {
	say := func(words ...string) string { return mark + strings.Join(words, " ") + mark }
	approve, reject := say("/approve", a.ID), say("/reject", a.ID)
	if a.Standing {
		return "\n\n" + t.Translate("Say %s, %s if I should never ask about exactly this again, or %s.", approve, say("/approve", a.ID, "always"), reject)
	}
	return "\n\n" + t.Translate("Say %s or %s.", approve, reject)
}

// askingCard shows the call as it will be made, with buttons to approve and reject.
func (a *Approval) askingCard(t *Turn) activity.Card {
	body := append([]any{heading(t.Translate("May I do this?"))}, a.describe(t, t.Activity.From)...)
	body = append(body, small(t.Translate("Expires %s.", viewOf(t).Clock(a.Expires))))
	buttons := []any{a.button(t.Translate("Approve"), "positive", verbApprove)}
	if a.Standing {
		buttons = append(buttons, a.button(t.Translate("Always approve exactly this"), "", verbAlways))
	}
	return activity.Card{
		Fallback: t.Translate("I need approval for %s. Please open this message in a client that shows cards.", t.title(a.Action)),
		Body:     body, Actions: append(buttons, a.button(t.Translate("Reject"), "destructive", verbReject)), Version: approvalVersion,
	}
}

// decidedCard is the card after the decision, or after the approval expired.
func (a *Approval) decidedCard(t *Turn, asker activity.Account) activity.Card {
	said := t.Translate("Not decided in time")
	if a.Decision != nil {
		said = a.Decision.inWords(t)
	}
	return activity.Card{Fallback: said, Body: append([]any{heading(said)}, a.describe(t, asker)...), Version: approvalVersion}
}

// describe shows the action and its arguments in full, as text without markup, so that no argument
// can pose as something else.
func (a *Approval) describe(t *Turn, asker activity.Account) []any {
	rows := []any{line(t.title(a.Action), "")}
	if action, ok := t.engine.cfg.Actions.Lookup(a.Action); ok {
		rows = append(rows, small(t.Translate(texts.Text(action.Description))))
	}
	for _, d := range a.details(t) {
		rows = append(rows, line(d.name, d.value))
	}
	if len(a.Approvers) > 0 {
		rows = append(rows, small(t.Translate("Only this bot's approvers can decide.")))
	}
	if a.Reason != "" {
		rows = append(rows, small(a.Reason))
	}
	if r := (requests{t}).asks(); r != "" {
		return append(rows, small(r))
	}
	return append(rows, small(t.Translate("Asked by %s.", cmp.Or(titles.Visible(asker.Name), t.Translate("the person of this message")))))
}

// inWords is the question as a text, with what the call does as code.
func (a *Approval) inWords(t *Turn) string {
	var s strings.Builder
	s.WriteString(t.Translate("May I do this?") + " **" + t.title(a.Action) + "**\n")
	for _, d := range a.details(t) {
		s.WriteString("\n- ")
		if name, ok := strings.CutSuffix(d.name, ": "); ok {
			s.WriteString(code(name) + ": ")
		}
		s.WriteString(code(d.value))
	}
	if a.Reason != "" {
		s.WriteString("\n\n" + code(titles.Visible(a.Reason))) // it may include names that strangers chose
	}
	return s.String()
}

// detail is a step of the action, or an argument with its name, with every character visible.
type detail struct{ name, value string }

// details returns the steps of the action and the arguments of the call. It marks an argument that
// the action does not know as not used.
func (a *Approval) details(t *Turn) (list []detail) {
	action, ok := t.engine.cfg.Actions.Lookup(a.Action)
	if ok {
		for step := range strings.Lines(action.Detail) {
			list = append(list, detail{"", titles.Visible(strings.TrimSuffix(step, "\n"))})
		}
	}
	var entities map[string]any
	dec := json.NewDecoder(bytes.NewReader(a.Entities))
	dec.UseNumber()
	_ = dec.Decode(&entities) // ask wrote it
	for _, name := range slices.Sorted(maps.Keys(entities)) {
		var property *jsonschema.Schema
		if ok {
			property = action.Schema.Properties[name]
		}
		called := titles.Visible(name)
		switch {
		case ok && property == nil:
			called += " (" + t.Translate("not used") + ")"
		case ok:
			called = titles.Visible(t.Translate(texts.Text(titles.Of(property, name))))
		}
		list = append(list, detail{called + ": ", viewOf(t).Value(property, entities[name])})
	}
	return list
}

// viewOf shows values to the person of the turn.
func viewOf(t *Turn) titles.View { return titles.View{Say: t.Translate, Zone: t.Activity.Zone()} }

// code formats a text so that no markdown in it takes effect.
func code(text string) string { return "`" + strings.ReplaceAll(text, "`", "\\u0060") + "`" }

// button makes a button whose data says which call it is for.
func (a *Approval) button(title string, style string, verb string) activity.Button {
	return activity.Button{Title: title, Style: style, Verb: verb, Data: decision{a.ID, a.Hash, verb}}
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
