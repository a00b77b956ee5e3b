package bot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	return d, d.valid() && d.Verb == value.Action.Verb
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

// decide spends the approval in one write and, if it is a yes, lets the run go on
// in a turn of its own, behind what the conversation has waiting: the click is
// answered at once. Whoever may not decide, or comes late, changes nothing.
func (b *Bot) decide(ctx context.Context, t *Turn, d decision) error {
	doc, err := b.loadApproval(ctx, t.Activity, d.Approval)
	if err != nil {
		return err
	}
	p := state.Of[pending](doc)
	if err := doc.Err(); err != nil {
		return fmt.Errorf("read approval: %w", err)
	}
	if refusal := p.refuses(d, t.Activity.From, time.Now()); refusal != "" {
		return t.refuseDecision(ctx, refusal)
	}
	taken := *p
	made := decided{Approved: d.Verb == verbApprove, By: cmp.Or(t.Activity.From.Name, t.Activity.From.ID), At: time.Now()}
	p.decide(made)
	if err := b.cfg.Store.Save(ctx, doc); err != nil {
		return err
	}
	zerolog.Ctx(ctx).Info().Str("approval", taken.ID).Str("of_turn", taken.Turn).Str("action", taken.Action).
		Str("by", t.Activity.From.ID).Bool("approved", made.Approved).Msg("approval decided")
	if made.Approved {
		b.meter.approval("approved")
	} else {
		b.meter.approval("rejected")
	}
	t.showDecision(&taken, *p.Decided)
	b.goOnAfter(ctx, t, &taken, *p.Decided)
	return nil
}

// refuses says why the decision does not count, or "".
func (p *pending) refuses(d decision, by activity.Account, now time.Time) string {
	switch {
	case p.ID == "":
		return "I do not wait for this decision any more. Nothing was done."
	case d.Hash != "" && d.Hash != p.Hash:
		return "This card does not belong to what I would do. Nothing was done."
	case p.Decided != nil:
		return "This was decided already: " + p.Decided.String() + "."
	case now.After(p.Expires):
		return decided{Expired: true}.String() + "."
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
func (t *Turn) showDecision(p *pending, d decided) {
	if t.Activity.Type == activity.Invoke {
		t.answer = InvokeResponse{Body: object{
			"statusCode": 200, "type": activity.CardContentType, "value": t.decidedCard(p, d),
		}}
	}
}

// invokeMessage answers an Action.Execute with a short text.
func invokeMessage(text string) InvokeResponse {
	return InvokeResponse{Body: object{
		"statusCode": 200, "type": "application/vnd.microsoft.activity.message", "value": text,
	}}
}

// goOnAfter queues what follows the decision in the conversation's lane. Only
// replies that travel in the answer to the click are waited for.
func (b *Bot) goOnAfter(ctx context.Context, click *Turn, p *pending, d decided) {
	t := b.newTurn(click.Activity)
	t.resumes, t.replies = p.ID, click.replies
	log := b.turnLog(t).With().Str("approval", p.ID).Str("of_turn", p.Turn).Logger()
	done := make(chan struct{})
	b.lanes.behind(conversationLane(click.Activity), func(ctx context.Context) {
		defer close(done)
		fault := t.become(p, click.Activity)
		follow := func(ctx context.Context, t *Turn) error {
			t.updateCard(ctx, click.Activity, p, d)
			if fault != nil {
				return fault
			}
			return b.follow(ctx, t, p, d)
		}
		b.work(log.WithContext(ctx), t, func(*Turn) Handler { return follow })
	})
	if t.replies != nil {
		wait(ctx, expectRepliesWithin, done)
	}
}

// follow does what was decided.
func (b *Bot) follow(ctx context.Context, t *Turn, p *pending, d decided) error {
	waits := state.Of[approvals](t.Conversation)
	waits.Waiting = slices.DeleteFunc(waits.Waiting, func(w waitingFor) bool { return w.ID == p.ID })
	if d.Approved {
		return b.resume(ctx, t, p)
	}
	t.remember("[rejected "+p.Action+"]", "")
	return t.Tell(ctx, "As you wish: I did not do "+p.Action+".")
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
	t.Activity, t.Text = origin, s.Text
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
	t.Rounds, t.Usage = s.Rounds, s.Usage
	t.secure()
	r := &run{
		turn: t, execution: s.Execution, steps: s.Steps, same: s.Same,
		approved: p.Hash, asked: "[approved " + p.Action + "]",
	}
	return r.carryOn(ctx)
}

// updateCard shows everybody who decided. Nothing depends on it.
func (t *Turn) updateCard(ctx context.Context, click *activity.Activity, p *pending, d decided) {
	id := p.CardID
	if id == "" && saidNothing(click) {
		id = click.ReplyToID
	}
	if id == "" || t.replies != nil || !showsCards(click.ChannelID) {
		return
	}
	m := t.message("")
	m.TextFormat, m.ReplyToID = "", ""
	m.Attachments = []activity.Attachment{activity.Card(t.decidedCard(p, d))}
	if err := t.bot.cfg.Channel.Update(ctx, click.Reference(), id, m); err != nil {
		zerolog.Ctx(ctx).Info().Str("error", cause(err)).Msg("the approval card was not updated")
	}
}

// saidNothing reports whether the activity is a click, which replies to its card.
func saidNothing(a *activity.Activity) bool { return a.Type == activity.Invoke || isSubmit(a) }
