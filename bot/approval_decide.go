package bot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// errChanged ends a turn that was approved when the bot has changed meanwhile, so
// that it would do something else than what the person saw.
var errChanged = errors.New("the approved call is not the one that would be made now")

// decision is what a person says to an approval.
type decision struct {
	Approval string `json:"approval"`
	Hash     string `json:"hash"` // of the call that was shown; "" when it was said in words
	Verb     string `json:"verb"`
}

func (d *decision) valid() bool {
	return d.Approval != "" && (d.Verb == verbApprove || d.Verb == verbReject)
}

// clickedExecute reads the click on a card's Action.Execute.
func clickedExecute(t *Turn) (d decision, ok bool) {
	var value struct {
		Action struct {
			Verb string   `json:"verb"`
			Data decision `json:"data"`
		} `json:"action"`
	}
	if t.Activity.Type != activity.Invoke || t.Activity.Name != "adaptiveCard/action" {
		return d, false
	}
	if json.Unmarshal(t.Activity.Value, &value) != nil {
		return d, false
	}
	d = value.Action.Data
	return d, d.valid() && d.Hash != "" && d.Verb == value.Action.Verb
}

// clickedSubmit reads the click on a card's Action.Submit.
func clickedSubmit(t *Turn) (d decision, ok bool) {
	if !isSubmit(t.Activity) || json.Unmarshal(t.Activity.Value, &d) != nil {
		return decision{}, false
	}
	return d, d.valid() && d.Hash != ""
}

// saidDecision reads /approve and /reject with the id of an approval.
func saidDecision(t *Turn) (d decision, ok bool) {
	if !t.isMessage() {
		return d, false
	}
	switch words := strings.Fields(t.Text); {
	case len(words) != 2:
		return d, false
	case strings.EqualFold(words[0], "/approve"):
		return decision{Approval: words[1], Verb: verbApprove}, true
	case strings.EqualFold(words[0], "/reject"):
		return decision{Approval: words[1], Verb: verbReject}, true
	}
	return d, false
}

// decisionIn reads a decision in any of its forms.
func decisionIn(t *Turn) (d decision, ok bool) {
	for _, read := range []func(*Turn) (decision, bool){clickedExecute, clickedSubmit, saidDecision} {
		if d, ok = read(t); ok {
			return d, true
		}
	}
	return decision{}, false
}

// decide spends the approval in one write and queues what follows, in a turn of its
// own behind what the conversation has waiting: the click is answered at once.
// Whoever may not decide, or comes late, changes nothing. A repeated yes goes on
// with a run that was approved and has not begun.
func (b *Bot) decide(ctx context.Context, t *Turn, d decision) error {
	docs, err := b.loadApprovals(ctx, t.Activity, d.Approval)
	if err != nil {
		return err
	}
	p := state.Of[pending](docs[0])
	if err := docs[0].Err(); err != nil {
		return fmt.Errorf("read approval: %w", err)
	}
	if refusal := p.refuses(d, t.Activity.From, time.Now()); refusal != "" {
		return t.refuseDecision(ctx, refusal)
	}
	if p.Decided == nil {
		p.decide(decided{Approved: d.Verb == verbApprove, By: cmp.Or(t.Activity.From.Name, t.Activity.From.ID), At: time.Now()})
		if err := b.saveApproval(ctx, t, docs[0]); err != nil {
			return err
		}
		b.meter.approval(p.Decided.word())
		zerolog.Ctx(ctx).Info().Str("approval", p.ID).Str("of_turn", p.Turn).Str("action", p.Action).
			Str("by", t.Activity.From.ID).Bool("approved", p.Decided.Approved).Msg("approval decided")
	}
	t.showDecision(p)
	t.follows = b.queueFollowing(t.Activity, t.replies, *p)
	return nil
}

// saveApproval saves the document. A repeated save does no harm.
func (b *Bot) saveApproval(ctx context.Context, t *Turn, doc *state.Scope) error {
	err := b.cfg.Store.Save(ctx, doc)
	if errors.Is(err, state.ErrUnavailable) && ctx.Err() == nil {
		err = b.cfg.Store.Save(ctx, doc)
	}
	t.saveFailed = errors.Is(err, state.ErrUnavailable)
	return err
}

// refuses says why the decision does not count, or "".
func (p *pending) refuses(d decision, by activity.Account, now time.Time) string {
	switch {
	case p.ID == "":
		return "I do not wait for this decision any more. Nothing was done."
	case d.Hash != "" && d.Hash != p.Hash:
		return "This card does not belong to what I would do. Nothing was done."
	case p.Begun != "" || p.Decided != nil && p.Decided.Approved != (d.Verb == verbApprove):
		return "This was decided already: " + p.Decided.String() + "."
	case p.Decided == nil && now.After(p.Expires):
		return "This was not decided in time. Nothing was done."
	case !p.mayDecide(by):
		return "You may not decide this. Nothing was done."
	}
	return ""
}

// refuseDecision tells only who clicked, where the channel can.
func (t *Turn) refuseDecision(ctx context.Context, text string) error {
	if t.Activity.Type != activity.Invoke {
		return t.deliver(ctx, t.message(text))
	}
	t.answer = invokeMessage(text)
	return nil
}

// showDecision answers the click with the card as it is now.
func (t *Turn) showDecision(p *pending) {
	if t.Activity.Type == activity.Invoke {
		t.answer = InvokeResponse{Body: object{
			"statusCode": 200, "type": activity.CardContentType, "value": t.decidedCard(p),
		}}
	}
}

// invokeMessage answers an Action.Execute with a short text.
func invokeMessage(text string) InvokeResponse {
	return InvokeResponse{Body: object{
		"statusCode": 200, "type": "application/vnd.microsoft.activity.message", "value": text,
	}}
}

// queueFollowing queues what follows a decision in the conversation's lane, and
// returns a channel that is closed when it is over.
func (b *Bot) queueFollowing(click *activity.Activity, in *replies, p pending) <-chan struct{} {
	t := b.newTurn(click)
	t.resumes, t.replies = p.ID, in
	log := b.turnLog(t).With().Str("approval", p.ID).Str("of_turn", p.Turn).Logger()
	done := make(chan struct{})
	b.lanes.behind(conversationLane(click), func(ctx context.Context) {
		defer close(done)
		fault := t.become(&p, click)
		b.work(log.WithContext(ctx), t, func(*Turn) Handler {
			return func(ctx context.Context, t *Turn) error {
				if fault != nil {
					return fault
				}
				return b.follow(ctx, t, click, &p)
			}
		})
	})
	return done
}

// follow does what was decided, unless that has begun elsewhere.
func (b *Bot) follow(ctx context.Context, t *Turn, click *activity.Activity, p *pending) error {
	if ours, err := b.begin(ctx, t, p.ID); err != nil || !ours {
		t.done = true
		return err
	}
	for i, a := range state.Of[approvals](t.Conversation).Asked {
		if a.ID == p.ID {
			state.Of[approvals](t.Conversation).Asked[i].Over = true
		}
	}
	t.updateCard(ctx, click, p)
	if p.Decided.Approved {
		return b.resume(ctx, t, p)
	}
	said := "As you wish: I did not do " + p.Action + p.andTheRest() + "."
	t.renote(p.ID, "["+said+"]")
	return t.Tell(ctx, said)
}

// begin marks the decision as followed by this turn. It is false when another turn
// has done so, or the approval is gone.
func (b *Bot) begin(ctx context.Context, t *Turn, id string) (ours bool, err error) {
	docs, err := b.loadApprovals(ctx, t.Activity, id)
	if err != nil {
		return false, err
	}
	p := state.Of[pending](docs[0])
	if p.Begun == "" && p.ID != "" {
		p.begin(t.ID)
		if err := b.saveApproval(ctx, t, docs[0]); err != nil {
			return false, err
		}
	}
	t.begun = p.Begun == t.ID
	return t.begun, nil
}

// unbegun is how long a decision may wait before another turn takes it up.
const unbegun = 30 * time.Second

// takeUp queues what was decided in this conversation and has not begun since: the
// process that took the decision is gone.
func (b *Bot) takeUp(ctx context.Context, t *Turn) {
	var ids []string
	for _, a := range state.Of[approvals](t.Conversation).Asked {
		if !a.Over {
			ids = append(ids, a.ID)
		}
	}
	docs, err := b.loadApprovals(ctx, t.Activity, ids...)
	if err != nil {
		zerolog.Ctx(ctx).Info().Err(err).Msg("approvals were not looked at")
	}
	for _, doc := range docs {
		p := state.Of[pending](doc)
		if p.Decided != nil && p.Begun == "" && time.Since(p.Decided.At) > unbegun {
			b.queueFollowing(t.Activity, nil, *p)
		}
	}
}

// andTheRest names the actions behind the one that was rejected, which are not run
// either.
func (p *pending) andTheRest() string {
	s, err := p.read()
	if err != nil {
		return ""
	}
	var names []string
	for _, c := range s.Execution.Plan.Commands[s.Execution.Next+1:] {
		if c.Kind == planner.Do {
			names = append(names, c.Action)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", nor what was to follow it: " + strings.Join(names, ", ")
}

// become makes t the turn that was suspended: it answers the activity of who
// asked, over the address that the click has just proved.
func (t *Turn) become(p *pending, click *activity.Activity) error {
	message := *click // if all else fails, who clicked is told
	message.Type, message.Value = activity.Message, nil
	t.Activity = &message
	s, err := p.read()
	if err != nil {
		return err
	}
	origin, err := activity.Decode(s.Activity)
	if err != nil {
		return fmt.Errorf("read suspended run: %w", err)
	}
	origin.ServiceURL = click.ServiceURL
	t.Activity, t.Text, t.Usage = origin, s.Text, s.Usage
	return nil
}

// resume goes on with the run that was approved: at the call that waited, without
// asking the model again. Its plan is checked once more, since this may be
// another version of the bot than the one that asked.
func (b *Bot) resume(ctx context.Context, t *Turn, p *pending) error {
	s, err := p.read()
	if err != nil {
		return err
	}
	plan, err := planner.Validate(s.Execution.Plan, b.cfg.Actions)
	if err != nil {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	s.Execution.Plan = plan
	t.Rounds = s.Rounds
	t.secure()
	t.renote(p.ID, "")
	r := &run{
		turn: t, execution: s.Execution, steps: s.Steps, same: s.Same, executed: s.Executed,
		approved: p.Hash, noted: "[" + p.Action + " was approved.]",
	}
	return r.carryOn(ctx)
}

// updateCard shows everybody who decided. Nothing depends on it.
func (t *Turn) updateCard(ctx context.Context, click *activity.Activity, p *pending) {
	id := p.CardID
	if id == "" && saidNothing(click) {
		id = click.ReplyToID
	}
	if id == "" || t.replies != nil || !showsCards(t.Activity.ChannelID) {
		return
	}
	m := t.message("")
	m.TextFormat, m.ReplyToID = "", ""
	m.Attachments = []activity.Attachment{activity.Card(t.decidedCard(p))}
	if err := t.bot.cfg.Channel.Update(ctx, t.Activity.Reference(), id, m); err != nil {
		zerolog.Ctx(ctx).Info().Str("error", cause(err)).Msg("the approval card was not updated")
	}
}

// saidNothing reports whether the activity is a click, which replies to its card.
func saidNothing(a *activity.Activity) bool { return a.Type == activity.Invoke || isSubmit(a) }
