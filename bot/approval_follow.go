package bot

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

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
