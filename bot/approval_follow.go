package bot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// enqueueFollowing puts the turn that follows the decision of the click behind what
// the conversation has waiting, in the write that saves the approval's document. It
// returns that turn's id: there is one for a click, however often this is called, and
// of those of several clicks one begins.
func (b *Bot) enqueueFollowing(ctx context.Context, click *Turn, approval string, doc *state.Scope) (string, error) {
	raw, err := click.Activity.Encode()
	if err != nil {
		return "", err
	}
	t := b.newTurn(click.Activity)
	t.resumes, t.awaited, t.trace = approval, t.replies != nil, traceparent(ctx)
	t.vouch(click.signed)
	i := item{Version: itemVersion, Approval: approval, Awaited: t.awaited, Signed: t.signed, CallerID: t.Activity.CallerID, Trace: t.trace, Activity: raw}
	receipt, err := b.submit(ctx, t, state.Entry{
		Lane: conversationLane(click.Activity), Turn: t.ID, Body: i.encode(),
		Duplicates: []state.Duplicate{{ID: "decision\n" + approval + "\n" + click.ID}}, Save: []*state.Scope{doc}, Unbounded: true,
	})
	return receipt.Turn, err
}

// become makes t the turn that was suspended: it answers the activity of who
// asked, over the address that the click has just proved. It is done when what was
// decided has begun in another turn, or the approval is gone.
func (b *Bot) become(ctx context.Context, t *Turn, before *journal) error {
	t.click = t.Activity
	message := *t.click // if all else fails, who clicked is told
	message.Type, message.Value = activity.Message, nil
	t.Activity = &message
	if before != nil {
		t.begun = true
		if err := t.answerTo(before.Activity, before.Text); err != nil {
			return t.putAside(before, unreadableJournal, err)
		}
		return nil
	}
	docs, err := b.loadApprovals(ctx, t.click, t.resumes)
	if err != nil {
		return err
	}
	t.pending = state.Of[pending](docs[0])
	if err := docs[0].Err(); err != nil {
		return fmt.Errorf("read approval: %w", err)
	}
	if t.done = t.pending.ID == "" || t.pending.Begun != "" || t.pending.Decided == nil; t.done {
		return nil
	}
	linkTo(ctx, t.pending.Trace)
	s, err := t.pending.read()
	if err == nil {
		err = t.answerTo(s.Activity, s.Text)
	}
	if err != nil {
		return &parkError{reason: "what was decided cannot be read by this version of the bot", err: err}
	}
	t.Usage = s.Usage
	if err := t.load(ctx); err != nil {
		return err
	}
	t.scopes = append(t.scopes, docs[0])
	return nil
}

// answerTo makes the turn one that answers the activity of who asked.
func (t *Turn) answerTo(raw []byte, text string) error {
	origin, err := activity.Decode(raw)
	if err != nil {
		return fmt.Errorf("read suspended run: %w", err)
	}
	origin.ServiceURL, origin.CallerID = t.click.ServiceURL, t.click.CallerID
	t.Activity, t.Text = origin, text
	return nil
}

// follow does what was decided. From its first save on the decision is this turn's,
// and its run is in the journal instead of the approval's document.
func (b *Bot) follow(ctx context.Context, t *Turn) error {
	p := *t.pending
	for i, a := range state.Of[approvals](t.Conversation).Asked {
		if a.ID == p.ID {
			state.Of[approvals](t.Conversation).Asked[i].Over = true
		}
	}
	t.pending.begin(t.ID)
	if !p.Decided.Approved {
		if s, err := p.read(); err == nil && s.untold() {
			return b.goOnWithout(ctx, t, &p, &s)
		}
		said := "As you wish: I did not do " + p.Action + p.andTheRest() + "."
		t.renote(p.ID, "["+said+"]")
		t.begun = true
		t.updateCard(ctx, t.click, &p)
		return t.Tell(ctx, said)
	}
	if p.Decided.Always {
		t.stand(&p)
	}
	return b.resume(ctx, t, &p)
}

// untold reports whether there is more to say than that the rest was rejected: a model that
// waits for the results of its calls was not told of some, or the person was not told of a
// command that found nothing to act on.
func (s *suspended) untold() bool {
	return s.Execution.Owes() || s.Execution.Plan.Observe && slices.ContainsFunc(s.Rounds[len(s.Rounds)-1].Outcomes, func(o actions.Outcome) bool {
		return o.Action != string(plan.Say) && !o.Failed && o.Text != ""
	})
}

// goOnWithout lets the planner plan again with what was done before the call that was
// rejected.
func (b *Bot) goOnWithout(ctx context.Context, t *Turn, p *pending, s *suspended) error {
	t.Rounds = s.Rounds
	t.renote(p.ID, "")
	r := &run{turn: t, execution: s.Execution, steps: s.Steps + 1, same: s.Same, executed: s.Executed, noted: "[" + p.Action + " was rejected.]"}
	t.run = r
	c := r.check(s.Execution.Next)
	c.result = actions.Fail("a person rejected it")
	r.record(&c)
	r.leaveOut()
	r.execution = nil
	if err := t.save(ctx); err != nil {
		return err
	}
	t.begun = true
	t.updateCard(ctx, t.click, p)
	t.secure()
	return r.carryOn(ctx)
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
		if c.Kind == plan.Do {
			names = append(names, c.Action)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", nor what was to follow it: " + strings.Join(names, ", ")
}

// resume goes on with the run that was approved: at the call that waited, without
// asking the model again. Its plan is checked once more, since this may be
// another version of the bot than the one that asked.
func (b *Bot) resume(ctx context.Context, t *Turn, p *pending) error {
	s, err := p.read()
	if err != nil {
		return err
	}
	made, err := plan.Validate(s.Execution.Plan, b.cfg.Actions)
	if err != nil {
		return &parkError{
			reason: "the approved plan does not fit this version of the bot", err: err,
			say: "Sorry, things have changed since I asked for approval, so I did not do it, and put it aside for whoever runs me.",
		}
	}
	s.Execution.Plan = made
	t.Rounds = s.Rounds
	t.renote(p.ID, "")
	t.run = &run{
		turn: t, execution: s.Execution, steps: s.Steps, same: s.Same, executed: s.Executed,
		approved: p.Hash, noted: "[" + p.Action + " was approved.]",
	}
	if err := t.save(ctx); err != nil {
		return err
	}
	t.begun = true
	t.updateCard(ctx, t.click, p)
	t.secure()
	return t.run.carryOn(ctx)
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
	m.ReplyToID = ""
	m.Attachments = []activity.Attachment{t.decidedCard(p).Attachment()}
	if err := t.bot.cfg.Channel.Update(ctx, t.Activity.Reference(), id, m); err != nil {
		zerolog.Ctx(ctx).Info().Str("error", cause(err)).Msg("the approval card was not updated")
	}
}
