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
	return d.Approval != "" && (d.approves() || d.Verb == verbReject)
}

func (d *decision) approves() bool { return d.Verb == verbApprove || d.Verb == verbAlways }

// clickedExecute reads the click on a card's Action.Execute.
func clickedExecute(t *Turn) (d decision, ok bool) {
	if t.Activity.Type != activity.Invoke || t.Activity.Name != cardInvoke {
		return d, false
	}
	click, err := readClick(t.Activity)
	if err != nil {
		return d, false
	}
	return click.decision()
}

// decision reads what the button of an approval says.
func (c CardClick) decision() (d decision, ok bool) {
	if !strings.HasPrefix(c.Verb, ownVerbs) || c.Read(&d) != nil {
		return decision{}, false
	}
	return d, d.valid() && d.Hash != "" && d.Verb == c.Verb
}

// clickedSubmit reads the click on a card's Action.Submit.
func clickedSubmit(t *Turn) (d decision, ok bool) {
	if !isSubmit(t.Activity) || json.Unmarshal(t.Activity.Value, &d) != nil {
		return decision{}, false
	}
	return d, d.valid() && d.Hash != ""
}

// saidDecision reads /approve and /reject with the id of an approval; behind the first
// may stand always.
func saidDecision(t *Turn) (d decision, ok bool) {
	if !t.isMessage() {
		return d, false
	}
	switch words := strings.Fields(t.Text); {
	case len(words) == 3 && strings.EqualFold(words[0], "/approve") && strings.EqualFold(words[2], "always"):
		return decision{Approval: words[1], Verb: verbAlways}, true
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

// decide spends the approval and puts what follows into the conversation's lane, in
// one write: the click is answered at once, and what was decided is not lost. Whoever
// may not decide, or comes late, changes nothing.
func (b *Bot) decide(ctx context.Context, t *Turn, d decision) error {
	for range maxMerges {
		docs, err := b.loadApprovals(ctx, t.Activity, d.Approval)
		if err != nil {
			return err
		}
		p := state.Of[pending](docs[0])
		if err := docs[0].Err(); err != nil {
			return fmt.Errorf("read approval: %w", err)
		}
		if refusal := p.refuses(d, t.Activity.From, time.Now()); refusal != "" {
			if p.Decided != nil {
				b.meter.duplicate(aClick)
			}
			return t.refuseDecision(ctx, refusal)
		}
		err = b.spend(ctx, t, docs[0], d)
		if !errors.Is(err, state.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("decide approval %s: %w", d.Approval, state.ErrConflict)
}

// spend is one try at it. A yes that is said again makes sure that it is followed.
func (b *Bot) spend(ctx context.Context, t *Turn, doc *state.Scope, d decision) error {
	p := state.Of[pending](doc)
	first := p.Decided == nil
	if first {
		p.decide(decided{Approved: d.approves(), Always: d.Verb == verbAlways && p.Standing, By: cmp.Or(t.Activity.From.Name, t.Activity.From.ID), At: time.Now()})
	}
	follows, err := b.enqueueFollowing(ctx, t, p.ID, doc)
	if err != nil {
		return err
	}
	if first {
		b.meter.approval(p.Decided.word())
		zerolog.Ctx(ctx).Info().Str("approval", p.ID).Str("of_turn", p.Turn).Str("action", p.Action).
			Str("by", t.Activity.From.ID).Bool("approved", p.Decided.Approved).Msg("approval decided")
	} else {
		b.meter.duplicate(aClick)
	}
	t.follows = follows
	t.showDecision(p)
	return nil
}

// refuses says why the decision does not count, or "".
func (p *pending) refuses(d decision, by activity.Account, now time.Time) string {
	switch {
	case p.ID == "":
		return "I do not wait for this decision any more. Nothing was done."
	case d.Hash != "" && d.Hash != p.Hash:
		return "This card does not belong to what I would do. Nothing was done."
	case p.Begun != "" || p.Decided != nil && p.Decided.Approved != d.approves():
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
		return t.Tell(ctx, text)
	}
	t.answer = ShowMessage(text).response()
	return nil
}

// showDecision answers the click with the card as it is now.
func (t *Turn) showDecision(p *pending) {
	if t.Activity.Type == activity.Invoke {
		t.answer = ShowCard(t.decidedCard(p)).response()
	}
}

// saidNothing reports whether the activity is a click, which replies to its card.
func saidNothing(a *activity.Activity) bool { return a.Type == activity.Invoke || isSubmit(a) }
